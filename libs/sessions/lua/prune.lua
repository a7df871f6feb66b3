-- prune: removes an expired session from its tenant's list.
--
-- KEYS  1 session  hash, as in claim   2 tenant  zset, as in keep
-- ARGV  1 member of the tenant's zset
-- Returns {'pruned'} | {'stays'}
-- Complexity O(log n) for n sessions of the tenant.

if redis.call('HEXISTS', KEYS[1], 'entry') == 1 then return {'stays'} end
redis.call('ZREM', KEYS[2], ARGV[1])
return {'pruned'}
