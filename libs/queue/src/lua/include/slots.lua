--- @include session
-- Slots: a tenant holds one from release to ending. Its virtual time is charged with an estimate at release and
-- corrected to what was used at the end, so long runs cost more than short ones.

-- Seconds that the tenant's next execution is expected to take: its own mean, else the lane's. The very first guess is
-- low: what is charged too much moves the virtual clock that others enter at, and comes back to this tenant alone.
local function estimate_of(mean, lane)
  return tonumber(mean) or tonumber(redis.call('HGET', K.clock, 'mean:' .. lane)) or C.first_estimate
end

-- Adds virtual time to a tenant, wherever it is kept.
local function charge(lane, tenant, amount)
  if redis.call('ZSCORE', K.ring .. lane, tenant) then
    redis.call('ZINCRBY', K.ring .. lane, amount, tenant)
  else
    redis.call('HINCRBYFLOAT', K.tenant .. tenant, 'vt:' .. lane, amount)
  end
end

-- The tenant's outstanding count, the lane's out set and the estimate; returns the new count. At its concurrency the
-- tenant leaves the rings.
local function slot_take(lane, tenant, id, concurrency, estimate, now)
  local outstanding = redis.call('HINCRBY', K.tenant .. tenant, 'n', 1)
  if outstanding >= concurrency then
    ring_leave('interactive', tenant)
    ring_leave('routine', tenant)
  end
  redis.call('ZADD', K.out .. lane, now, id)
  redis.call('HSET', K.record .. id, 's', 'released', 'est', estimate)
  return outstanding
end

-- Two moving averages of run lengths: a quick one over about five for the next charge, which is corrected at the end
-- anyway, and one over about C.average_runs for ETAs, which nobody corrects.
local function note_length(key, quick, slow, count, used)
  local x = redis.call('HMGET', key, quick, slow, count)
  local mean, average = tonumber(x[1]) or used, tonumber(x[2]) or used
  local runs = math.min(C.average_runs, (tonumber(x[3]) or 0) + 1)
  redis.call('HSET', key, quick, mean + (used - mean) * 0.2, slow, average + (used - average) / runs, count, runs)
end

-- Gives back the slot of `id`. `used` in seconds; nil when it did not run (the charge is returned in full).
local function slot_free(lane, tenant, id, estimate, used)
  if redis.call('ZREM', K.out .. lane, id) == 0 then return false end
  local key = K.tenant .. tenant
  if redis.call('HINCRBY', key, 'n', -1) < 0 then redis.call('HSET', key, 'n', 0) end
  local weight = limits_of(tenant)
  charge(lane, tenant, ((used or 0) - estimate) / weight)
  if used then
    note_length(key, 'mean', 'avg', 'runs', used)
    note_length(K.clock, 'mean:' .. lane, 'avg:' .. lane, 'runs:' .. lane, used)
  end
  ring_enter_lanes(tenant)
  forget_if_idle(tenant)
  return true
end
