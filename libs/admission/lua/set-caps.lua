-- set-caps: replaces the caps of a tenant.
--
-- KEYS  1 caps    hash    the tenant's own caps
--       2 seeded  string  run id of the Redis server for which the counters were verified
-- ARGV  1 rev that must be in force ('' for none), or '*'
--       2.. fields of the hash as pairs, rev and json first
-- Returns {'set'} | {'changed'} (another rev is in force, nothing written)
-- Invariants
--   - Setting the caps in force changes nothing, not even rev. Every worker sets them when it starts, and a
--     change of rev would restart a seeding that is in flight.
--   - CPU and cost are counted only while a tenant has a cap on either. When the first of them is set, the
--     counters are restored from the audit rows before anything is admitted.
-- Complexity O(F) for F fields.

if ARGV[1] ~= '*' and (redis.call('HGET', KEYS[1], 'rev') or '') ~= ARGV[1] then return {'changed'} end
if redis.call('HGET', KEYS[1], 'json') == ARGV[5] then return {'set'} end
local function metered()
  return redis.call('HEXISTS', KEYS[1], 'cpu') + redis.call('HEXISTS', KEYS[1], 'cost') > 0
end
local before = metered()
redis.call('DEL', KEYS[1])
for i = 2, #ARGV, 2 do redis.call('HSET', KEYS[1], ARGV[i], ARGV[i + 1]) end
if metered() and not before then redis.call('DEL', KEYS[2]) end
return {'set'}
