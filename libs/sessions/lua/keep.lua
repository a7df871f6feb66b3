-- keep: writes the entry of a session that has a sandbox.
--
-- KEYS  1 session  hash, as in claim
--       2 tenant   zset  '<backend>:<key>' -> creation time, ms
-- ARGV  1 fence  2 entry  3 its epoch  4 member of the tenant's zset  5 creation time, ms
--       6 its deadline, ms  7 how long it is kept after that, ms
-- Returns {'kept'} | {'fenced'}
-- Invariants
--   - Only the latest fence can write.
--   - A session is kept long after its deadline. So a sandbox that nobody could end yet stays known.
-- Complexity O(log n) for n sessions of the tenant.

if redis.call('HGET', KEYS[1], 'fence') ~= ARGV[1] then return {'fenced'} end
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
local epoch = math.max(tonumber(redis.call('HGET', KEYS[1], 'epoch') or '0'), tonumber(ARGV[3]))
redis.call('HSET', KEYS[1], 'entry', ARGV[2], 'epoch', string.format('%d', epoch))
redis.call('ZADD', KEYS[2], ARGV[5], ARGV[4])
local left = math.max(tonumber(ARGV[6]) - now, 0) + tonumber(ARGV[7])
redis.call('PEXPIRE', KEYS[1], string.format('%d', left))
if redis.call('PTTL', KEYS[2]) < left then redis.call('PEXPIRE', KEYS[2], string.format('%d', left)) end
return {'kept'}
