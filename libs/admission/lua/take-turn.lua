-- take-turn: takes one call of a shared rate (GCRA). Tells when it may be made, or that it is too late.
--
-- KEYS  1 rate  string  time at which the bucket is full again if no further token is taken, microseconds
-- ARGV  1 microseconds between two calls  2 microseconds whose calls may come at once
--       3 longest wait, microseconds
-- Returns {'turn', wait} or {'full', wait}: microseconds
-- Invariants
--   - In any span of S microseconds at most (S + ARGV[2]) / ARGV[1] + 1 turns begin.
--   - A refused call takes nothing.
-- Complexity O(1)

local t = redis.call('TIME')
local now = t[1] * 1000000 + t[2]
local at = math.max(now, tonumber(redis.call('GET', KEYS[1]) or '0')) + tonumber(ARGV[1])
-- The clock was set back by more than any wait: start again.
if at > now + ARGV[2] + ARGV[3] + 60000000 then at = now + ARGV[1] end
-- The first call never waits, however slow the rate.
local wait = math.max(0, at - now - math.max(tonumber(ARGV[1]), tonumber(ARGV[2])))
if wait > tonumber(ARGV[3]) then return { 'full', wait } end
redis.call('SET', KEYS[1], string.format('%.0f', at), 'PX', math.ceil((at - now) / 1000) + 1000)
return { 'turn', wait }
