-- seed: restores the counters of a tenant. Runs once per run of the server, because Redis may have lost data.
-- Runs again when the tenant gets its first cap on CPU or cost, and when a reservation has no lease
-- (`recount` in admit.lua).
--
-- KEYS  1 seeded  string  run id of the Redis server for which the counters were verified
--       2 caps    hash    the tenant's own caps
--       3 day     hash    {b, n, cu, cr, mu, mr} of the tenant
--       4 open    hash    member -> "day:cpu:cost" reserved
--       5 leases  zset    member -> expiry, milliseconds
--       6.. hour  hash    {b, n} of one agent each, then
--         charge  string  ledger entry of one attempt each
-- ARGV  1 server run ID  2 caps rev that the caller saw  3 last batch 0|1  4 length of a day, ms
--       5 length of an hour, ms  6 bucket of the day  7 its count  8 its CPU ms  9 its cost
--       10 number of agents A, then A pairs (bucket, count)
--       then number of unsettled attempts M, then M pairs (member, how the counts include it: 1 by its audit
--       row, 2 by its charge, 0 not at all)
--       then the fields of the caps hash as pairs, or nothing to leave it as it is
-- Returns {'seeded'} | {'more'} (a batch before the last) | {'already'} (seeded by another caller)
--      or {'another_run'} (the caller named another run of the server: count again)
--      or {'caps_changed'} (caps were set since the caller read them: read again)
--      or {'settled_meanwhile'} (count again: since the counts were read, an attempt that they lack has
--         ended, or one that they include was refunded). It may have written a part, which is safe to repeat.
--         The other refusals write nothing.
-- Invariants
--   - A counter becomes max(seed, present) of the current window, never less: charged attempts stay charged.
--   - A count for a window that is over is dropped: the next window began while unseeded, so it has no
--     charges.
--   - The marker is written with the last batch. Until then nobody charges, and batches may be repeated.
--   - Older caps never overwrite newer ones, because setCaps changes rev.
--   - Each attempt's CPU and cost is counted once. If the counts include its row, its reservation ends here.
--     Otherwise its settlement counts it, and this script opens a reservation for that.
-- Complexity O(A + M + F) for A agents, M attempts and F fields of caps in the batch.

if not is_this_run(ARGV[1]) then return {'another_run'} end
if redis.call('GET', KEYS[1]) == ARGV[1] then return {'already'} end
if (redis.call('HGET', KEYS[2], 'rev') or '') ~= ARGV[2] then return {'caps_changed'} end
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
local dayMs, hourMs, agents = tonumber(ARGV[4]), tonumber(ARGV[5]), tonumber(ARGV[10])

local function raise(key, length, bucket, counts)
  local current = math.floor(now / length)
  if bucket ~= current or counts.n <= 0 then return end
  local b = tonumber(redis.call('HGET', key, 'b'))
  -- The clock stepped back, and the counter is already in the next window. Leave it there, as admit.lua does.
  if b == current + 1 then return end
  if b ~= current then
    redis.call('DEL', key)
    redis.call('HSET', key, 'b', current)
    redis.call('PEXPIREAT', key, (current + 1) * length + 60000)
  end
  for field, count in pairs(counts) do
    if tonumber(redis.call('HGET', key, field) or '0') < count then redis.call('HSET', key, field, count) end
  end
end

local at = 11 + 2 * agents
local attempts = tonumber(ARGV[at])
for i = 1, attempts do
  local byCharge = ARGV[at + 2 * i] == '2'
  if byCharge and redis.call('EXISTS', KEYS[5 + agents + i]) == 0 then return {'settled_meanwhile'} end
end

raise(KEYS[3], dayMs, tonumber(ARGV[6]),
  { n = tonumber(ARGV[7]), cu = tonumber(ARGV[8]), mu = tonumber(ARGV[9]) })
for i = 1, agents do
  raise(KEYS[5 + i], hourMs, tonumber(ARGV[9 + 2 * i]), { n = tonumber(ARGV[10 + 2 * i]) })
end

local function close(member, held)
  redis.call('HDEL', KEYS[4], member)
  local day, cpu, cost = string.match(held, '^(%d+):(%d+):(%d+)$')
  if redis.call('HGET', KEYS[3], 'b') ~= day then return end
  redis.call('HINCRBY', KEYS[3], 'cr', 0 - tonumber(cpu))
  redis.call('HINCRBY', KEYS[3], 'mr', 0 - tonumber(cost))
end

for i = 1, attempts do
  local member, ended = ARGV[at + 2 * i - 1], ARGV[at + 2 * i] == '1'
  local held = redis.call('HGET', KEYS[4], member)
  -- A run takes at most a day, so nobody will settle a reservation that is this old. Drop it.
  local old = held and tonumber(string.match(held, '^%d+')) < math.floor(now / dayMs) - 3
  if held and (ended or old) then
    close(member, held)
  elseif not held and not ended then
    if not redis.call('ZSCORE', KEYS[5], member) then return {'settled_meanwhile'} end
    local entry = redis.call('GET', KEYS[5 + agents + i])
    local day = entry and string.match(entry, '^%d+')
    if day then
      redis.call('HSET', KEYS[4], member, day .. ':0:0')
      redis.call('PEXPIRE', KEYS[4], 3 * dayMs)
    end
  end
end
if ARGV[3] ~= '1' then return {'more'} end

local first = at + 2 * attempts + 1
if ARGV[first] then
  redis.call('DEL', KEYS[2])
  for i = first, #ARGV, 2 do redis.call('HSET', KEYS[2], ARGV[i], ARGV[i + 1]) end
end
redis.call('SET', KEYS[1], ARGV[1])
return {'seeded'}
