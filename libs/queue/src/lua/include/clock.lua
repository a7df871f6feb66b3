-- Milliseconds of the server's clock, the queue's only clock. All calls in one script have the same time.
local moment
local function now_ms()
  if not moment then
    local t = redis.call('TIME')
    moment = t[1] * 1000 + math.floor(t[2] / 1000)
  end
  return moment
end
