-- release: gives a lease back; with a TTL also lets the ledger entry of an ended attempt fade early.
--
-- KEYS  1 leases  zset    member -> expiry, milliseconds
--       2 charge  string  ledger entry "day:hour:charged_at:token that charged:token that owns"
-- ARGV  1 member  2 token of the admission  3 new TTL of the ledger entry, ms, or 0 to leave it
-- Returns {'released'} | {'gone'} (expired or released before) | {'not_owner'} (the attempt was admitted again since)
-- Invariants
--   - Only the latest admission of an attempt can free its lease: the token in the ledger tells.
--   - A TTL is only ever shortened.
-- Complexity O(log L) for L leases of the tenant.

local entry = redis.call('GET', KEYS[2])
if entry and string.match(entry, ':([^:]*)$') ~= ARGV[2] then return {'not_owner'} end
local ttl = tonumber(ARGV[3])
if entry and ttl > 0 and redis.call('PTTL', KEYS[2]) > ttl then redis.call('PEXPIRE', KEYS[2], ttl) end
if redis.call('ZREM', KEYS[1], ARGV[1]) == 1 then return {'released'} end
return {'gone'}
