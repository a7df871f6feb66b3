-- Milliseconds of the server's clock: the only clock of the queue.
local function now_ms()
  local t = redis.call('TIME')
  return t[1] * 1000 + math.floor(t[2] / 1000)
end
