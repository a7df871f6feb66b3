--- @include own
-- An execution that was released or taken, and has not begun, goes back into its backlog as the next of its
-- agent. Whoever had it can write nothing more, because it does not run; deliveries stay counted. `x` is what
-- read_for_take read.
local function put_back(id, x, now)
  local key, tenant, lane = K.record .. id, x[7], x[17]
  redis.call('HDEL', key, 'w', 'tk', 'dw')
  redis.call('HSET', key, 's', 'queued')
  backlog_push(lane, tenant, x[18], id, tonumber(x[19]), now, true)
  slot_free(lane, tenant, id, x[15], tonumber(x[20]))
end
