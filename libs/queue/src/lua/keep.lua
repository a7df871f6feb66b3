-- Purpose: the owner keeps a value for its execution's next attempt, or for the next turn of its session.
-- KEYS[1]  record
-- ARGV     1 id, 2 fence, 3 what (checkpoint, workspace), 4 name of the value (the key after its prefix),
--          5 value, 6 milliseconds to keep it
-- Returns  {'ok', ref that was replaced or nil (checkpoint)} | {'fenced'}
-- Invariants: only the owner writes, so a worker that lost the execution neither replaces what the next owner
--          kept nor learns its ref. A repeated call returns no ref, because the ref in place is its own.
-- Complexity: O(1).
local x = redis.call('HMGET', KEYS[1], 's', 'f')
if x[1] ~= 'running' or x[2] ~= ARGV[2] then return { 'fenced' } end
if ARGV[3] == 'workspace' then
  redis.call('SET', K.workspace .. ARGV[4], ARGV[5], 'PX', ARGV[6])
  return { 'ok' }
end
local before = redis.call('SET', K.checkpoint .. ARGV[4], ARGV[5], 'PX', ARGV[6], 'GET')
return { 'ok', before ~= ARGV[5] and before or false }
