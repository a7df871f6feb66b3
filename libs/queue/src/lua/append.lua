-- Purpose: append live events of the running attempt.
-- KEYS[1]  record
-- ARGV     1 id, 2 fence, 3 number of this call (1, 2, …), 4 newest entries that the stream keeps, 5… events
--          (JSON), in order
-- Returns  {'ok'} | {'fenced'}
-- Invariants: only the current owner appends, so a stream never grows after its end and attempts never mix.
--          Repeating a call changes nothing.
-- Complexity: O(events).
--- @include ending
local x = redis.call('HMGET', KEYS[1], 's', 'f', 'ev', 'st', 'eq')
if x[1] ~= 'running' or x[2] ~= ARGV[2] then return { 'fenced' } end
local call = ARGV[2] .. ':' .. ARGV[3]
if x[3] == call then return { 'ok' } end
redis.call('HSET', KEYS[1], 'ev', call)
append_events(ARGV[1], ARGV, 5, ARGV[4], not x[4] and x[5], x[3] and ARGV[3] == '1')
return { 'ok' }
