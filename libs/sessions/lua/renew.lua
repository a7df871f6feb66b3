-- renew: extends a lease, unless another holder has claimed the session since.
--
-- KEYS  1 session  hash, as in claim
-- ARGV  1 fence  2 holder  3 lease, ms  4 how long a session without an entry is kept, ms
-- Returns {'renewed', 1 if its entry exists, otherwise 0} | {'lost'}
--         | {'gone'}: the server does not know the session, so it lost its data
-- Invariants
--   - An expired lease that nobody else claimed is extended. The holder itself decides whether to go on.
-- Complexity O(1).

local fence = redis.call('HGET', KEYS[1], 'fence')
if not fence then return {'gone'} end
if fence ~= ARGV[1] then return {'lost'} end
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
redis.call('HSET', KEYS[1], 'holder', ARGV[2], 'till', string.format('%d', now + tonumber(ARGV[3])))
if redis.call('PTTL', KEYS[1]) < tonumber(ARGV[4]) then redis.call('PEXPIRE', KEYS[1], ARGV[4]) end
return {'renewed', redis.call('HEXISTS', KEYS[1], 'entry')}
