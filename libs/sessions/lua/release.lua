-- release: gives a lease back; what was kept stays. A no-op for whoever lost it.
--
-- KEYS  1 session  hash, as in claim
-- ARGV  1 fence
-- Returns {'released'} | {'fenced'}
-- Complexity O(1).

if redis.call('HGET', KEYS[1], 'fence') ~= ARGV[1] then return {'fenced'} end
redis.call('HDEL', KEYS[1], 'holder', 'till')
return {'released'}
