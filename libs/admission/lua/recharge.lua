-- recharge: charges an attempt again if Redis lost its charge, just before its audit row is written.
--
-- KEYS  1 seeded  string  run ID of the Redis server for which the counters were verified
--       2 caps    hash    the tenant's own caps
--       3 charge  string  ledger entry "day:hour:charged_at:agent:token that charged:token that owns"
--       4 day     hash    {b, n, cu, cr, mu, mr} of the tenant
--       5 hour    hash    {b, n} of the tenant's agent
--       6 open    hash    member -> "day:cpu:cost" reserved
-- ARGV  1 server run ID  2 length of a day, ms  3 length of an hour, ms  4 when it was charged, ms
--       5 token of that admission  6 member  7 ledger TTL, ms  8 agent
-- Returns {'kept'} (this owner or a later one has the charge) | {'recharged'} | {'another_run'}
--      or {'unseeded', now, caps rev}
-- Invariants
--   - Counters of another run of the server are restored first. They do not include the attempt, because its
--     audit row is not written yet.
--   - The attempt counts in the windows of its original charge, unless they are over.
--   - No cap is checked, because the attempt ran. It gets a reservation, so that its settlement can count.
-- Complexity O(1).

if redis.call('EXISTS', KEYS[3]) == 1 then return {'kept'} end
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
if not is_this_run(ARGV[1]) then return {'another_run'} end
if redis.call('GET', KEYS[1]) ~= ARGV[1] then
  return {'unseeded', now, redis.call('HGET', KEYS[2], 'rev') or ''}
end
local dayMs, hourMs, chargedAt = tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
local day, hour = math.floor(chargedAt / dayMs), math.floor(chargedAt / hourMs)

local function count(key, length, bucket)
  local b = tonumber(redis.call('HGET', key, 'b'))
  if bucket < math.floor(now / length) or b and b > bucket then return end
  if b ~= bucket then
    redis.call('DEL', key)
    redis.call('HSET', key, 'b', bucket)
  end
  redis.call('HINCRBY', key, 'n', 1)
  redis.call('PEXPIREAT', key, (bucket + 1) * length + 60000)
end
count(KEYS[4], dayMs, day)
count(KEYS[5], hourMs, hour)
local charge = string.format('%.0f:%.0f:%.0f:', day, hour, chargedAt) .. ARGV[8] .. ':' .. ARGV[5]
redis.call('SET', KEYS[3], charge .. ':' .. ARGV[5], 'PX', ARGV[7])
redis.call('HSET', KEYS[6], ARGV[6], string.format('%.0f:0:0', day))
redis.call('PEXPIRE', KEYS[6], ARGV[7])
return {'recharged'}
