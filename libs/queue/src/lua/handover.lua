-- Purpose: record that the sandbox has received the program. After a crash, the recovering worker reads it.
-- KEYS[1]  record
-- ARGV     1 id, 2 fence
-- Returns  {'ok'} | {'fenced'}
-- Invariants: only the owner writes it, after begin. It stores the owner's fence, so that a later attempt can
--          tell that the record is not its own.
-- Complexity: O(1).
--- @each
local x = redis.call('HMGET', KEYS[1], 's', 'f', 'bg')
if x[1] ~= 'running' or x[2] ~= ARGV[2] or not x[3] then return { 'fenced' } end
redis.call('HSET', KEYS[1], 'ho', ARGV[2])
return { 'ok' }
