--- @include slots
--- @include run-queue
-- When the window became smaller than what is released (workers left, or their memory is the bottleneck), the latest
-- releases that still wait in the run queue go back to the fair backlog: what comes meanwhile is then ordered with
-- them, not behind them. Their charge stays paid (`pre`) until they are released again: returning it would throw the
-- tenant behind a virtual clock that others entered at. Those that a worker fetched are left alone.
-- O(C.pick_max * log n).
local function recall(lane, window, now)
  local surplus = math.min(C.pick_max, redis.call('ZCARD', K.out .. lane) - window)
  if surplus <= 0 then return end
  for _, id in ipairs(redis.call('ZREVRANGE', K.out .. lane, 0, C.pick_max - 1)) do
    local x = redis.call('HMGET', K.record .. id, 's', 'rel', 't', 'a', 'sc', 'est')
    local job = job_of(id, x[2])
    if x[1] == 'released' and redis.call('ZREM', K.bull .. lane .. ':prioritized', job) == 1 then
      redis.call('DEL', K.bull .. lane .. ':' .. job)
      redis.call('HSET', K.record .. id, 's', 'queued', 'pre', x[6])
      redis.call('ZREM', K.out .. lane, id)
      redis.call('HINCRBY', K.tenant .. x[3], 'n', -1)
      backlog_push(lane, x[3], x[4], id, tonumber(x[5]), now, true)
      ring_enter_lanes(x[3])
      surplus = surplus - 1
      if surplus == 0 then return end
    end
  end
end

local function recall_surplus(now)
  local w = redis.call('HMGET', K.window, 'total', 'interactive', 'routine')
  local total = tonumber(w[1]) or 0
  local routine = redis.call('ZCARD', K.out .. 'routine')
  recall('interactive', math.min(tonumber(w[2]) or 0, total - math.min(routine, math.ceil(total / 4))), now)
  recall('routine', math.min(tonumber(w[3]) or 0, total), now)
end
