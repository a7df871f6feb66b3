-- release: ends a lease and keeps the entry. Does nothing for a holder that lost the lease.
--
-- KEYS  1 session  hash, as in claim
-- ARGV  1 fence
-- Returns {'released'} | {'fenced'}
-- Complexity O(1).

if redis.call('HGET', KEYS[1], 'fence') ~= ARGV[1] then return {'fenced'} end
redis.call('HDEL', KEYS[1], 'holder', 'till')
return {'released'}
