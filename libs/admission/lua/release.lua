-- release: releases the lease of an attempt. With figures, its reservation becomes use. With a TTL, the
-- ledger entry of an ended attempt expires early.
--
-- KEYS  1 leases  zset    member -> expiry, milliseconds
--       2 charge  string  ledger entry "day:hour:charged_at:agent:token that charged:token that owns"
--       3 open    hash    member -> "day:cpu:cost" reserved
--       4 day     hash    {b, n, cu, cr, mu, mr} of the tenant
-- ARGV  1 member  2 token of the admission, or '' for a caller that ends the attempt of a dead owner
--       3 new TTL of the ledger entry, ms, or 0 to leave it
--       4 CPU ms and 5 cost that the attempt is charged, as in its audit row; '' and '' to settle nothing yet
-- Returns {'released'} | {'gone'} (expired or released before) | {'not_owner'} (admitted again)
-- Invariants
--   - Only the latest admission of an attempt can release its lease. The ledger's token tells which it is.
--   - The settlement removes the reservation, so a second settlement of an attempt adds nothing.
--   - Use counts in the day of the charge, unless that day is over.
--   - A TTL is never lengthened.
-- Complexity O(log L) for L leases of the tenant.

local entry = redis.call('GET', KEYS[2])
if entry and ARGV[2] ~= '' and string.match(entry, ':([^:]*)$') ~= ARGV[2] then return {'not_owner'} end
local ttl = tonumber(ARGV[3])
if entry and ttl > 0 and redis.call('PTTL', KEYS[2]) > ttl then redis.call('PEXPIRE', KEYS[2], ttl) end
local held = ARGV[4] ~= '' and redis.call('HGET', KEYS[3], ARGV[1])
if held then
  redis.call('HDEL', KEYS[3], ARGV[1])
  local day, cpu, cost = string.match(held, '^(%d+):(%d+):(%d+)$')
  local sums = redis.call('HMGET', KEYS[4], 'b', 'cu', 'cr', 'mu', 'mr')
  if sums[1] == day then
    redis.call('HSET', KEYS[4],
      'cu', tonumber(sums[2] or '0') + tonumber(ARGV[4]), 'cr', tonumber(sums[3] or '0') - tonumber(cpu),
      'mu', tonumber(sums[4] or '0') + tonumber(ARGV[5]), 'mr', tonumber(sums[5] or '0') - tonumber(cost))
  end
end
if redis.call('ZREM', KEYS[1], ARGV[1]) == 1 then return {'released'} end
return {'gone'}
