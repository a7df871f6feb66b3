-- renew: renews leases of one tenant and names those that are gone.
--
-- KEYS  1 leases  zset  member -> expiry, milliseconds
-- ARGV  1 lease, ms  2.. members
-- Returns {'renewed', new expiry, lost member...}
-- Invariants
--   - Never restores a missing or expired lease, because its slot may be taken.
-- Complexity O(M log L) for M members and L leases of the tenant.

local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
local leaseEnds = now + tonumber(ARGV[1])
local reply, kept = {'renewed', leaseEnds}, false
for i = 2, #ARGV do
  local ends = redis.call('ZSCORE', KEYS[1], ARGV[i])
  if ends and tonumber(ends) > now then
    redis.call('ZADD', KEYS[1], 'XX', leaseEnds, ARGV[i])
    kept = true
  else
    reply[#reply + 1] = ARGV[i]
  end
end
-- The key outlives its leases by 10 minutes, as in admit.lua.
if kept then redis.call('PEXPIRE', KEYS[1], tonumber(ARGV[1]) + 600000) end
return reply
