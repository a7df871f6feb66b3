-- set-caps: replaces the caps of a tenant.
--
-- KEYS  1 caps    hash    the tenant's own caps
--       2 seeded  string  run id of the Redis server under which the counters were made good
-- ARGV  fields of the hash as pairs
-- Returns {'set'}
-- Invariants
--   - CPU and cost are counted only while a tenant has a cap of either. When the first of them is set, the counters are
--     made good again from the audit rows before anything is admitted.
-- Complexity O(F) for F fields.

local function metered() return redis.call('HEXISTS', KEYS[1], 'cpu') + redis.call('HEXISTS', KEYS[1], 'cost') > 0 end
local before = metered()
redis.call('DEL', KEYS[1])
for i = 1, #ARGV, 2 do redis.call('HSET', KEYS[1], ARGV[i], ARGV[i + 1]) end
if metered() and not before then redis.call('DEL', KEYS[2]) end
return {'set'}
