-- Purpose: record the point of no return, just before user code starts.
-- KEYS[1]  record
-- ARGV     1 id, 2 fence, 3 began JSON {attempt, fence, worker, ref}, 4 JSON of the `started` event after its
--          at_ms, 5 attempt
-- Returns  {'ok'} | {'fenced', 1 when this owner certainly has not begun the attempt} | {'cancelled'}
-- Invariants: an execution that was cancelled earlier never begins. Repeating the call changes nothing.
-- Complexity: O(1).
--- @include clock
--- @include ending
--- @each
local x = redis.call('HMGET', KEYS[1], 's', 'f', 'can', 'bg', 'at', 'eq')
if x[1] ~= 'running' or x[2] ~= ARGV[2] then
  -- The mark stays until the next attempt, so it proves a begin whose answer was lost.
  return { 'fenced', (x[5] == ARGV[5] and x[4] ~= ARGV[3]) and 1 or 0 }
end
if x[4] == ARGV[3] then return { 'ok' } end
if x[3] then return { 'cancelled' } end
local now = now_ms()
redis.call('HSET', KEYS[1], 'bg', ARGV[3], 'st', now)
append_event(ARGV[1], string.format('{"type":"started","at_ms":%.0f,', now) .. ARGV[4], x[6])
return { 'ok' }
