--- @include later
--- @include session
--- @include share
-- Slots: a tenant holds one from release to ending. Its virtual time is charged with an estimate at release and
-- corrected to what was used at the end, so long runs cost more than short ones.

-- Seconds that the tenant's next execution is expected to take: its own mean, else the lane's. The very first guess is
-- low: what is charged too much moves the virtual clock that others enter at, and comes back to this tenant alone.
local function estimate_of(mean, lane)
  return tonumber(mean) or tonumber(redis.call('HGET', K.clock, 'mean:' .. lane)) or C.first_estimate
end

-- Adds virtual time of a kind to a tenant, wherever it is kept.
local function charge(lane, tenant, kind, amount)
  if redis.call('ZSCORE', ring_of(lane, kind), tenant) then
    redis.call('ZINCRBY', ring_of(lane, kind), amount, tenant)
  else
    redis.call('HINCRBYFLOAT', K.tenant .. tenant, 'vt:' .. lane .. ':' .. kind, amount)
  end
end

-- The tenant's outstanding count, the lane's out set, the count of the kind (`k` of the record) and the
-- estimate; returns the new count. At its concurrency the tenant leaves the rings.
local function slot_take(lane, tenant, id, kind, concurrency, estimate, now)
  local outstanding = redis.call('HINCRBY', K.tenant .. tenant, 'n', 1)
  redis.call('HINCRBY', K.tenant .. tenant, 'n:' .. lane .. ':' .. kind, 1)
  if outstanding >= concurrency then
    ring_leave('interactive', tenant)
    ring_leave('routine', tenant)
  end
  redis.call('ZADD', K.out .. lane, now, id)
  redis.call('HSET', K.record .. id, 's', 'released', 'est', estimate, 'k', kind)
  count_out(lane, kind, 1)
  return outstanding
end

-- A worker of another kind took it than the one for which it was released: its slot and charge are of that
-- kind.
local function slot_move(lane, tenant, id, from, to, estimate)
  count_out(lane, from, -1)
  count_out(lane, to, 1)
  redis.call('HINCRBY', K.tenant .. tenant, 'n:' .. lane .. ':' .. from, -1)
  redis.call('HINCRBY', K.tenant .. tenant, 'n:' .. lane .. ':' .. to, 1)
  local weight = limits_of(tenant)
  charge(lane, tenant, from, -estimate / weight)
  charge(lane, tenant, to, estimate / weight)
  redis.call('HSET', K.record .. id, 'k', to)
end

-- Two moving averages of run lengths: a quick one over about five for the next charge, which is corrected at the end
-- anyway, and one over about C.average_runs for ETAs, which nobody corrects. Returns them and the count of runs.
local function averages_with(used, mean, average, runs)
  mean, average = tonumber(mean) or used, tonumber(average) or used
  runs = math.min(C.average_runs, (tonumber(runs) or 0) + 1)
  return mean + (used - mean) * 0.2, average + (used - average) / runs, runs
end

-- What slot_free read and left, of one lane: the next call of the same script need not read it again.
local freed = { tenants = {} }

local function note_length(lane, used)
  local x = freed.lengths or redis.call('HMGET', K.clock, 'mean:' .. lane, 'avg:' .. lane, 'runs:' .. lane)
  x = { averages_with(used, x[1], x[2], x[3]) }
  freed.lengths = x
  for i, field in ipairs({ 'mean:', 'avg:', 'runs:' }) do set_later(K.clock, field .. lane, x[i]) end
end

-- Gives back the slot that `id` has at a kind. `used` in seconds; nil when it did not run (the charge is
-- returned in full). `goes_on`: unless the tenant has a backlog, what follows reads nothing of it before
-- write_now. Returns whether it had the slot, and whether it has a backlog.
local function slot_free(lane, tenant, id, kind, estimate, used, goes_on)
  if redis.call('ZREM', K.out .. lane, id) == 0 then return false end
  if not goes_on or freed.lane ~= lane or freed.kind ~= kind then
    write_now()
    freed = { lane = lane, kind = kind, tenants = {} }
  end
  count_out(lane, kind, -1)
  local key = K.tenant .. tenant
  local s = freed.tenants[tenant]
    or redis.call('HMGET', key, 'n', 'q:interactive', 'q:routine', 'd', 'vt:' .. lane .. ':' .. kind, 'mean', 'avg', 'runs',
      'n:' .. lane .. ':' .. kind)
  freed.tenants[tenant] = s
  s[1] = math.max(0, (tonumber(s[1]) or 0) - 1)
  set_later(key, 'n', s[1])
  s[9] = math.max(0, (tonumber(s[9]) or 0) - 1)
  set_later(key, 'n:' .. lane .. ':' .. kind, s[9])
  local queued = { interactive = tonumber(s[2]) or 0, routine = tonumber(s[3]) or 0 }
  local weight = limits_of(tenant)
  local correction = ((used or 0) - estimate) / weight
  -- Without a backlog it is in no ring.
  if queued[lane] > 0 and redis.call('ZSCORE', ring_of(lane, kind), tenant) then
    redis.call('ZINCRBY', ring_of(lane, kind), correction, tenant)
  else
    s[5] = (tonumber(s[5]) or 0) + correction
    set_later(key, 'vt:' .. lane .. ':' .. kind, s[5])
  end
  if used then
    s[6], s[7], s[8] = averages_with(used, s[6], s[7], s[8])
    for i, field in ipairs({ 'mean', 'avg', 'runs' }) do set_later(key, field, s[5 + i]) end
    note_length(lane, used)
  end
  local has_backlog = queued.interactive > 0 or queued.routine > 0
  if not goes_on or has_backlog then write_now() end
  if queued.interactive > 0 then ring_enter('interactive', tenant) end
  if queued.routine > 0 then ring_enter('routine', tenant) end
  if s[1] == 0 and not has_backlog and (tonumber(s[4]) or 0) <= 0 then
    redis.call('PEXPIRE', key, C.idle_tenant_ttl)
  end
  return true, has_backlog
end
