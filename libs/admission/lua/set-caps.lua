-- set-caps: replaces the caps of a tenant.
--
-- KEYS  1 caps    hash    the tenant's own caps
--       2 seeded  string  run id of the Redis server under which the counters were made good
-- ARGV  1 rev that must stand there ('' for none), or '*'  2.. fields of the hash as pairs, rev and json first
-- Returns {'set'} | {'changed'} (another rev stands there, nothing written)
-- Invariants
--   - Caps that are in force already change nothing, rev included: every worker of a fleet that starts sets them, and whoever makes the
--     counters good at that moment would have to begin again each time.
--   - CPU and cost are counted only while a tenant has a cap of either. When the first of them is set, the counters are
--     made good again from the audit rows before anything is admitted.
-- Complexity O(F) for F fields.

if ARGV[1] ~= '*' and (redis.call('HGET', KEYS[1], 'rev') or '') ~= ARGV[1] then return {'changed'} end
if redis.call('HGET', KEYS[1], 'json') == ARGV[5] then return {'set'} end
local function metered() return redis.call('HEXISTS', KEYS[1], 'cpu') + redis.call('HEXISTS', KEYS[1], 'cost') > 0 end
local before = metered()
redis.call('DEL', KEYS[1])
for i = 2, #ARGV, 2 do redis.call('HSET', KEYS[1], ARGV[i], ARGV[i + 1]) end
if metered() and not before then redis.call('DEL', KEYS[2]) end
return {'set'}
