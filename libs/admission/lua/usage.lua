-- usage: how much of its caps a tenant (and one of its agents) has used. If a reservation has no lease (see
-- `recount` in admit.lua), the marker `seeded` is deleted. Then the counters are compared with the audit rows
-- again, at most every 10 s.
--
-- KEYS  1 seeded  string  run id of the Redis server for which the counters were verified
--       2 caps    hash    the tenant's own caps
--       3 day     hash    {b, n, cu, cr, mu, mr} of the tenant
--       4 hour    hash    {b, n} of the tenant's agent
--       5 leases  zset    member -> expiry, milliseconds
--       6 open    hash    member -> "day:cpu:cost" reserved
-- ARGV  1 agent ('' for none)  2 length of a day, ms  3 length of an hour, ms  4 default tenant-daily cap
--       5 default agent-hourly cap  6 default concurrency  7 server run id
-- Returns {'usage', seeded 0|1, used_day, cap_day, day_end, used_hour, cap_hour, hour_end, running,
--         concurrency, used_cpu, reserved_cpu, cap_cpu, used_cost, reserved_cost, cap_cost, recount 0|1, now,
--         caps rev}; a missing cap is -1
--      or {'another_run'} (the caller named another run of the server)
-- Invariants
--   - Computes windows exactly as admit does.
-- Complexity O(log L) for L leases of the tenant.

if not is_this_run(ARGV[7]) then return {'another_run'} end
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
local caps = redis.call('HMGET', KEYS[2], 'daily', 'agent:' .. ARGV[1], 'hourly', 'concurrency',
  'cpu', 'cost', 'rev')
local function window(key, length)
  local stored = redis.call('HMGET', key, 'b', 'n')
  local bucket, b = math.floor(now / length), tonumber(stored[1])
  if b == bucket + 1 then bucket = b end
  return (b == bucket) and tonumber(stored[2]) or 0, (bucket + 1) * length
end
local usedDay, dayEnd = window(KEYS[3], tonumber(ARGV[2]))
local usedHour, hourEnd = window(KEYS[4], tonumber(ARGV[3]))
local live = redis.call('ZCOUNT', KEYS[5], '(' .. string.format('%.0f', now), '+inf')
local recount = 0
local recountedAt = tonumber(redis.call('HGET', KEYS[3], 'rc') or '0')
if redis.call('HLEN', KEYS[6]) > live and now - recountedAt >= 10000 then
  redis.call('HSET', KEYS[3], 'rc', now)
  redis.call('PEXPIREAT', KEYS[3], dayEnd + 60000)
  redis.call('DEL', KEYS[1])
  recount = 1
end
local sums = usedDay > 0 and redis.call('HMGET', KEYS[3], 'cu', 'cr', 'mu', 'mr') or {}
return {
  'usage',
  redis.call('GET', KEYS[1]) == ARGV[7] and 1 or 0,
  usedDay, tonumber(caps[1] or ARGV[4]), dayEnd,
  usedHour, tonumber(caps[2] or caps[3] or ARGV[5]), hourEnd,
  live,
  tonumber(caps[4] or ARGV[6]),
  tonumber(sums[1] or '0'), tonumber(sums[2] or '0'), tonumber(caps[5] or '-1'),
  tonumber(sums[3] or '0'), tonumber(sums[4] or '0'), tonumber(caps[6] or '-1'),
  recount, now, caps[7] or '',
}
