--- @include slots
--- @include bullmq
-- When the window of a kind became smaller than what is released for it (workers left, or their memory is the
-- bottleneck), the latest releases that still wait in the run queue go back to the fair backlog: what comes
-- meanwhile is then ordered with them, not behind them. Their charge stays paid (`pre`) until they are
-- released again: returning it would throw the tenant behind a virtual clock that others entered at. Those
-- that a worker fetched are left alone. O(C.pick_max * log n).
local function recall(lane, kind, surplus, now)
  surplus = math.min(C.pick_max, surplus)
  if surplus <= 0 then return end
  for _, id in ipairs(redis.call('ZREVRANGE', K.out .. lane, 0, C.pick_max - 1)) do
    local x = redis.call('HMGET', K.record .. id, 's', 'rel', 't', 'a', 'sc', 'est', 'k')
    if x[7] == kind and x[1] == 'released' and job_withdraw(lane, job_of(id, x[2])) then
      redis.call('HSET', K.record .. id, 's', 'queued', 'pre', x[6])
      redis.call('ZREM', K.out .. lane, id)
      count_out(lane, kind, -1)
      redis.call('HINCRBY', K.tenant .. x[3], 'n', -1)
      redis.call('HINCRBY', K.tenant .. x[3], 'n:' .. lane .. ':' .. kind, -1)
      backlog_push(lane, x[3], x[4], id, tonumber(x[5]), now, true)
      ring_enter_lanes(x[3])
      surplus = surplus - 1
      if surplus == 0 then return end
    end
  end
end

-- Also of kinds that are known no more.
local function recall_surplus(now)
  local kinds = {}
  for _, kind in ipairs(known_kinds()) do kinds[kind] = true end
  for _, field in ipairs(redis.call('HKEYS', K.outs)) do kinds[string.match(field, ':(.*)$')] = true end
  for kind in pairs(kinds) do
    local interactive, total = window_of(kind, 'interactive')
    local routine, out = window_of(kind, 'routine'), out_at(kind)
    recall('interactive', kind, out.interactive - math.min(interactive, total - math.min(out.routine, math.ceil(total / 4))), now)
    recall('routine', kind, out.routine - math.min(routine, total), now)
  end
end
