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
-- Each worker bounds the bytes of its own attempt (event-buffer.ts). The first call of an attempt trims the
-- entries of earlier attempts if the stream exceeds half of the bound.
local function stream_bytes() return redis.call('MEMORY', 'USAGE', K.events .. ARGV[1]) or 0 end
if x[3] and ARGV[3] == '1' and stream_bytes() > C.event_bytes / 2 then
  redis.call('XTRIM', K.events .. ARGV[1], 'MAXLEN', C.earlier_events)
end
for i = 5, #ARGV do
  append_event(ARGV[1], ARGV[i], not x[4] and x[5], ARGV[4])
  if string.sub(ARGV[i], 1, 18) == '{"type":"progress"' then redis.call('HSET', KEYS[1], 'pg', ARGV[i]) end
end
return { 'ok' }
