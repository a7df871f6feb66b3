-- Purpose: the running attempt's program was handed over to its sandbox: evidence for whoever recovers it
--          after a crash.
-- KEYS[1]  record
-- ARGV     1 id, 2 fence
-- Returns  {'ok'} | {'fenced'}
-- Invariants: only the owner says it, after begin; it is of that fence, so that a later attempt finds it to
--          be another's.
-- Complexity: O(1).
local x = redis.call('HMGET', KEYS[1], 's', 'f', 'bg')
if x[1] ~= 'running' or x[2] ~= ARGV[2] or not x[3] then return { 'fenced' } end
redis.call('HSET', KEYS[1], 'ho', ARGV[2])
return { 'ok' }
