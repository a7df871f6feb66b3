-- Milliseconds of the server's clock, the only clock of the queue. One script has one time, however many
-- calls are gathered in it.
local moment
local function now_ms()
  if not moment then
    local t = redis.call('TIME')
    moment = t[1] * 1000 + math.floor(t[2] / 1000)
  end
  return moment
end
