-- restore: writes back a held session that the server lost, unless another worker has claimed it since.
--
-- KEYS  1 session  hash, as in claim
-- ARGV  1 fence  2 holder  3 lease, ms  4 how long a session without an entry is kept, ms
-- Returns {'restored'} | {'lost'}
-- Complexity O(1).

if redis.call('EXISTS', KEYS[1]) == 1 then return {'lost'} end
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
redis.call('HSET', KEYS[1], 'fence', ARGV[1], 'holder', ARGV[2],
  'till', string.format('%d', now + tonumber(ARGV[3])))
redis.call('PEXPIRE', KEYS[1], ARGV[4])
return {'restored'}
