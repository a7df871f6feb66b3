-- Recounts the window from the heartbeats that are fresher than `fresh_ms`. O(workers).
local function recount_window(now, fresh_ms)
  local sum = { 0, 0, 0 }
  for _, worker in ipairs(redis.call('ZRANGEBYSCORE', K.beats, now - fresh_ms, '+inf')) do
    local raw = redis.call('HGET', K.workers, worker)
    if raw then
      local t, i, r = string.match(raw, '^(%d+)|(%d+)|(%d+)|')
      sum = { sum[1] + t, sum[2] + i, sum[3] + r }
    end
  end
  redis.call('HSET', K.window,
    'total', math.ceil(sum[1] * C.window_factor),
    'interactive', math.ceil(sum[2] * C.window_factor),
    'routine', math.ceil(sum[3] * C.window_factor))
end
