-- admit: may this attempt run now? Charges it once, reserves the most that it can use, and gives it a lease,
-- or says which limit refuses it.
--
-- KEYS  1 seeded   string  run ID of the Redis server for which the counters were verified
--       2 caps     hash    the tenant's own caps (daily, hourly, agent:<id>, cpu, cost, concurrency, rate,
--                         burst, rev)
--       3 charge   string  ledger entry of this attempt,
--                          "day:hour:charged_at:agent:token that charged:token that owns"
--       4 day      hash    of the tenant {b: bucket, n: count, cu, cr: CPU ms used, reserved, mu, mr: cost}
--       5 hour     hash    {b, n} of the tenant's agent
--       6 leases   zset    member -> expiry, milliseconds
--       7 tat      string  GCRA theoretical arrival time, milliseconds
--       8 open     hash    member -> "day:cpu:cost", what is reserved for attempts that are not settled
-- ARGV  1 agent  2 length of a day, ms  3 length of an hour, ms  4 default tenant-daily cap
--       5 default agent-hourly cap  6 default concurrency  7 lease member  8 token of this call  9 lease, ms
--       10 ledger TTL, ms  11 server run ID  12 CPU ms and 13 cost that the attempt may use at most
-- Returns {'another_run'} (the caller named another run of the server) | {'unseeded', now, caps rev}
--      or {'fenced'} a later owner has the attempt (the number before `~` in a token is its fence)
--      or {'denied',                    now, dimension, resets_at, kill 0|1, orphan, held 0|1, use...}
--         orphan = token that owns the charge of an earlier admission of this attempt, if its lease
--         has expired or the caller has a higher fence; otherwise ''
--         held = without the reservations of other attempts it would fit, so it may fit when they settle
--      or {'charged'|'charged_before',  now, charged_at, lease expiry, use...}
--         use = used_day, cap_day, day_end, used_hour, cap_hour, hour_end, used_cpu, cap_cpu, used_cost,
--         cap_cost; the last two caps are -1 where there is none
-- Invariants
--   - No part of a charge is written before every check has passed. Then both counters move, or neither if it
--     was charged before.
--   - It never raises a counter above its cap. The bucket number is stored with the count: a plain INCR with
--     an expiry is wrong in the millisecond of the boundary, when the key still exists and TIME is in the
--     next window.
--   - It never raises used plus reserved above the cap on CPU or cost. Without either cap it reserves
--     nothing.
--   - A cap of 0 is a kill switch: only `fenced` is checked before it, and it refuses even an attempt that
--     was charged before.
--   - Time is the server's TIME. No client clock matters.
-- Complexity O(log L) for L leases of the tenant.

local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
local dayMs, hourMs = tonumber(ARGV[2]), tonumber(ARGV[3])

local caps = redis.call('HMGET', KEYS[2], 'daily', 'agent:' .. ARGV[1], 'hourly', 'concurrency',
  'rate', 'burst', 'rev', 'cpu', 'cost')
local capDay = tonumber(caps[1] or ARGV[4])
local capHour = tonumber(caps[2] or caps[3] or ARGV[5])
local concurrency = tonumber(caps[4] or ARGV[6])
local rate, burst = tonumber(caps[5] or '0'), tonumber(caps[6] or '1')
local capCpu, capCost = tonumber(caps[8] or '-1'), tonumber(caps[9] or '-1')
local metered = caps[8] or caps[9]

local function window(key, length)
  local stored = redis.call('HMGET', key, 'b', 'n')
  local bucket, b = math.floor(now / length), tonumber(stored[1])
  -- The server's clock stepped back over the boundary. Stay in the window that had already begun.
  if b == bucket + 1 then bucket = b end
  return bucket, (b == bucket) and tonumber(stored[2]) or 0, (bucket + 1) * length
end
local day, usedDay, dayEnd = window(KEYS[4], dayMs)
local hour, usedHour, hourEnd = window(KEYS[5], hourMs)
local usedCpu, heldCpu, usedCost, heldCost = 0, 0, 0, 0
if metered and usedDay > 0 then
  local sums = redis.call('HMGET', KEYS[4], 'cu', 'cr', 'mu', 'mr')
  usedCpu, heldCpu = tonumber(sums[1] or '0'), tonumber(sums[2] or '0')
  usedCost, heldCost = tonumber(sums[3] or '0'), tonumber(sums[4] or '0')
end
local mostCpu, mostCost = tonumber(ARGV[12]), tonumber(ARGV[13])

local entry = redis.call('GET', KEYS[3])
local charge, chargedAt, owner -- charge = the part of the entry that never changes
if entry then charge, chargedAt, owner = string.match(entry, '^(%d+:%d+:(%d+):.*):([^:]*)$') end

-- If a later owner was admitted, the caller was stopped for longer than its lock and may not take the charge.
local function fenceOf(token)
  return tonumber(string.match(token, '^(%d+)~')) or 0
end
if entry and fenceOf(owner) > fenceOf(ARGV[8]) then return {'fenced'} end

local function ownLease()
  local ends = redis.call('ZSCORE', KEYS[6], ARGV[7])
  return ends and tonumber(ends) > now
end

-- A reservation without a lease belongs to an attempt of a dead worker. Either another worker will end and
-- settle the attempt, or the dead worker ended it but did not settle it. The audit rows tell which, so the
-- counters are verified again, at most every 10 s. usage.lua does the same.
local function recount()
  local live = redis.call('ZCOUNT', KEYS[6], '(' .. string.format('%.0f', now), '+inf')
  if redis.call('HLEN', KEYS[8]) <= live then return end
  if now - tonumber(redis.call('HGET', KEYS[4], 'rc') or '0') < 10000 then return end
  redis.call('HSET', KEYS[4], 'rc', now)
  redis.call('PEXPIREAT', KEYS[4], dayEnd + 60000)
  redis.call('DEL', KEYS[1])
end

local function denied(dimension, resetsAt, kill, held)
  -- A dead owner's lease may still run after its lock was taken over. So a caller with a higher fence also
  -- shows that the owner died.
  local isOrphan = entry and (fenceOf(owner) < fenceOf(ARGV[8]) or not ownLease())
  local orphan = isOrphan and owner or ''
  return {
    'denied', now, dimension, resetsAt, kill, orphan, held or 0,
    usedDay, capDay, dayEnd, usedHour, capHour, hourEnd, usedCpu, capCpu, usedCost, capCost,
  }
end

-- 1. Kill switch.
if capDay <= 0 then return denied('tenant_daily', dayEnd, 1) end
if capHour <= 0 then return denied('agent_hourly', hourEnd, 1) end
if capCpu == 0 then return denied('tenant_daily_cpu', dayEnd, 1) end
if capCost == 0 then return denied('tenant_daily_cost', dayEnd, 1) end

-- Counters of a server that restarted count only after they were compared with the audit rows.
if not is_this_run(ARGV[11]) then return {'another_run'} end
if redis.call('GET', KEYS[1]) ~= ARGV[11] then return {'unseeded', now, caps[7] or ''} end

-- 2.-4. An attempt without a ledger entry is checked against the tenant's day, the agent's hour, then CPU and
-- cost. The day comes first because its refusal lasts longer.
if not entry then
  if usedDay >= capDay then return denied('tenant_daily', dayEnd, 0) end
  if usedHour >= capHour then return denied('agent_hourly', hourEnd, 0) end
  local overCpu = function(sum) return capCpu > 0 and sum + mostCpu > capCpu end
  local overCost = function(sum) return capCost > 0 and sum + mostCost > capCost end
  if overCpu(usedCpu) then return denied('tenant_daily_cpu', dayEnd, 0) end
  if overCost(usedCost) then return denied('tenant_daily_cost', dayEnd, 0) end
  local held = overCpu(usedCpu + heldCpu) and 'tenant_daily_cpu'
    or overCost(usedCost + heldCost) and 'tenant_daily_cost'
  if held then
    recount()
    return denied(held, dayEnd, 0, 1)
  end
end

-- 5. Concurrency: expired leases do not count. An attempt that still holds a lease is admitted again.
local live = '(' .. string.format('%.0f', now)
if redis.call('ZCOUNT', KEYS[6], live, '+inf') >= concurrency then
  if not ownLease() then
    local first = redis.call('ZRANGEBYSCORE', KEYS[6], live, '+inf', 'WITHSCORES', 'LIMIT', 0, 1)
    return denied('tenant_concurrency', tonumber(first[2]), 0)
  end
end

-- 6. Rate limit (GCRA): only the first admission of an attempt takes a token.
local tat
if rate > 0 and not entry then
  tat = math.max(tonumber(redis.call('GET', KEYS[7]) or '0'), now) + 1000 / rate
  local allowedAt = tat - burst * 1000 / rate
  if allowedAt > now then return denied('tenant_rate', math.ceil(allowedAt), 0) end
end

-- Every check has passed: write.
if tat then redis.call('SET', KEYS[7], string.format('%.3f', tat), 'PX', math.ceil(tat - now) + 1000) end
local leaseMs = tonumber(ARGV[9])
local leaseEnds = now + leaseMs
redis.call('ZREMRANGEBYSCORE', KEYS[6], '-inf', now)
redis.call('ZADD', KEYS[6], leaseEnds, ARGV[7])
-- The key outlives its leases by 10 minutes: after an outage, seeding asks which attempts had one
-- (unsettled.lua).
redis.call('PEXPIRE', KEYS[6], leaseMs + 600000)
if entry then
  -- The caller owns the attempt now. An older owner that wakes up can neither release nor refund it.
  redis.call('SET', KEYS[3], charge .. ':' .. ARGV[8], 'PX', ARGV[10])
  return {
    'charged_before', now, tonumber(chargedAt), leaseEnds,
    usedDay, capDay, dayEnd, usedHour, capHour, hourEnd, usedCpu, capCpu, usedCost, capCost,
  }
end
if metered then
  redis.call('HSET', KEYS[4], 'b', day, 'n', usedDay + 1, 'cu', usedCpu, 'cr', heldCpu + mostCpu,
    'mu', usedCost, 'mr', heldCost + mostCost)
  redis.call('HSET', KEYS[8], ARGV[7], string.format('%.0f:%.0f:%.0f', day, mostCpu, mostCost))
  redis.call('PEXPIRE', KEYS[8], ARGV[10])
else
  -- If the tenant had a cap on an earlier day, the hash still has that day's sums. They must not count today.
  if usedDay == 0 then redis.call('DEL', KEYS[4]) end
  redis.call('HSET', KEYS[4], 'b', day, 'n', usedDay + 1)
end
-- The expiry, which is set with the first charge, only frees memory. The stored bucket number decides what
-- counts.
if usedDay == 0 then redis.call('PEXPIREAT', KEYS[4], dayEnd + 60000) end
redis.call('HSET', KEYS[5], 'b', hour, 'n', usedHour + 1)
if usedHour == 0 then redis.call('PEXPIREAT', KEYS[5], hourEnd + 60000) end
charge = string.format('%.0f:%.0f:%.0f:', day, hour, now) .. ARGV[1] .. ':' .. ARGV[8]
redis.call('SET', KEYS[3], charge .. ':' .. ARGV[8], 'PX', ARGV[10])
return {
  'charged', now, now, leaseEnds,
  usedDay + 1, capDay, dayEnd, usedHour + 1, capHour, hourEnd, usedCpu, capCpu, usedCost, capCost,
}
