--- @include pick
-- An execution without a session that finds room in its lane, and nobody waiting anywhere, goes through neither backlog nor ring.

-- What such a call read and left, for the next call of the same script.
local seen

-- A lane, and how many it has room for.
local function read_lane(lane)
  local w = redis.call('HMGET', K.window, 'total', lane)
  local interactive, routine = redis.call('ZCARD', K.out .. 'interactive'), redis.call('ZCARD', K.out .. 'routine')
  return { lane = lane, tenants = {}, free = math.min((tonumber(w[1]) or 0) - interactive - routine,
    (tonumber(w[2]) or 0) - (lane == 'routine' and routine or interactive)) }
end

-- What entering the ring and being picked from it at once would do to an execution. `state` is that of its tenant (waiting_of). Returns
-- the estimate that it is charged with.
local function release_at_once(around, tenant, id, state, weight, now)
  local lane, key = around.lane, K.tenant .. tenant
  local clock = around.clock or tonumber(redis.call('HGET', K.clock, 'v:' .. lane)) or 0
  local v, estimate = math.max(clock, state.v), estimate_of(state.mean, lane)
  state.outstanding, state.v = state.outstanding + 1, v + estimate / weight
  set_later(key, 'n', state.outstanding)
  set_later(key, 'vt:' .. lane, state.v)
  -- It has nothing that waits: with none out it was idle.
  if state.outstanding == 1 then redis.call('PERSIST', key) end
  if v > clock then set_later(K.clock, 'v:' .. lane, v) end
  write_later('ZADD', K.out .. lane, now, id)
  job_add(lane, id, 1, math.min(state.outstanding, C.priority_max), now, true)
  around.clock, around.free, around.tenants[tenant] = v, around.free - 1, state
  return estimate
end
