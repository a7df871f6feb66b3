-- forget: removes the entry of a session without a sandbox. Fence and epoch stay, so that they only rise.
--
-- KEYS  1 session  hash, as in claim   2 tenant  zset, as in keep
-- ARGV  1 fence  2 member of the tenant's zset  3 how long a session without an entry is kept, ms
-- Returns {'forgotten'} | {'fenced'}
-- Complexity O(log n) for n sessions of the tenant.

if redis.call('HGET', KEYS[1], 'fence') ~= ARGV[1] then return {'fenced'} end
redis.call('HDEL', KEYS[1], 'entry')
redis.call('ZREM', KEYS[2], ARGV[2])
redis.call('PEXPIRE', KEYS[1], ARGV[3])
return {'forgotten'}
