--- @include later
--- @include session
-- Slots. A tenant holds one from the release of an execution to its end. Its virtual time is charged an
-- estimate at release and corrected to the time used at the end, so long runs cost more than short ones.

-- Share of a tenant without a concurrency limit of its own. While its runs are short it may use every slot,
-- because others get one within a run. If its runs are long, or none has ended yet, it leaves a quarter of
-- the slots to others: of the fleet, and of each lane at each kind of worker. With fewer than four slots
-- there is no quarter to leave.

-- How many executions a tenant may have outstanding in a window. `mean`: seconds of its last runs.
local function share_of(tenant, mean, window)
  mean = tonumber(mean)
  if has_own_concurrency(tenant) or mean and mean < C.long_run then return math.huge end
  local slots = math.floor(window / C.window_factor)
  return slots - math.floor(slots / 4)
end

local function fleet_window() return tonumber(redis.call('HGET', K.window, 'total')) or 0 end

-- True when the tenant has its share of the fleet or of this lane at this kind. `out` of its executions hold
-- slots, `out_here` of them in this lane at this kind.
local function has_its_share(lane, kind, tenant, out, out_here, mean)
  local here = window_of(kind, lane)
  return out >= share_of(tenant, mean, fleet_window()) or out_here >= share_of(tenant, mean, here)
end

-- Seconds that the tenant's next execution is expected to take: its own mean, or else the lane's. Without
-- either it is a low guess, because an overcharge also advances the clock at which other tenants enter, and
-- only this tenant is refunded.
local function estimate_of(mean, lane)
  return tonumber(mean) or tonumber(redis.call('HGET', K.clock, 'mean:' .. lane)) or C.first_estimate
end

-- Adds virtual time of a kind to a tenant, in the ring or in the tenant's hash.
local function charge(lane, tenant, kind, amount)
  if redis.call('ZSCORE', ring_of(lane, kind), tenant) then
    redis.call('ZINCRBY', ring_of(lane, kind), amount, tenant)
  else
    redis.call('HINCRBYFLOAT', K.tenant .. tenant, 'vt:' .. lane .. ':' .. kind, amount)
  end
end

-- Takes a slot: counts the execution as outstanding for its tenant, lane and kind (`k` of the record) and
-- stores the estimate. Returns the tenant's new count. At its concurrency limit the tenant leaves the rings.
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

-- Moves slot and charge to another kind, because a worker of that kind took an execution released for the
-- first one.
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

-- Updates two moving averages of run lengths and returns them with the count of runs. The fast one, over
-- about five runs, is for the next charge, which is corrected at the end. The one over about C.average_runs
-- runs is for ETAs, which are never corrected.
local function averages_with(used, mean, average, runs)
  mean, average = tonumber(mean) or used, tonumber(average) or used
  runs = math.min(C.average_runs, (tonumber(runs) or 0) + 1)
  return mean + (used - mean) * 0.2, average + (used - average) / runs, runs
end

-- Values of one lane and kind that slot_free read and updated. Later calls in the same script reuse them.
local freed = { tenants = {} }

local function note_length(lane, used)
  local x = freed.lengths or redis.call('HMGET', K.clock, 'mean:' .. lane, 'avg:' .. lane, 'runs:' .. lane)
  x = { averages_with(used, x[1], x[2], x[3]) }
  freed.lengths = x
  for i, field in ipairs({ 'mean:', 'avg:', 'runs:' }) do set_later(K.clock, field .. lane, x[i]) end
end

-- Frees the slot of `id` at a kind. `used`: seconds that the execution ran, or nil if it did not run. Then
-- the whole charge is refunded. With `defer_writes` and an empty backlog, the writes wait for write_now.
-- Returns whether it had a slot, and whether its tenant has a backlog.
local function slot_free(lane, tenant, id, kind, estimate, used, defer_writes)
  if redis.call('ZREM', K.out .. lane, id) == 0 then return false end
  if not defer_writes or freed.lane ~= lane or freed.kind ~= kind then
    write_now()
    freed = { lane = lane, kind = kind, tenants = {} }
  end
  count_out(lane, kind, -1)
  local key = K.tenant .. tenant
  local s = freed.tenants[tenant]
    or redis.call('HMGET', key, 'n', 'q:interactive', 'q:routine', 'd', 'vt:' .. lane .. ':' .. kind, 'mean',
      'avg', 'runs', 'n:' .. lane .. ':' .. kind)
  freed.tenants[tenant] = s
  s[1] = math.max(0, (tonumber(s[1]) or 0) - 1)
  set_later(key, 'n', s[1])
  s[9] = math.max(0, (tonumber(s[9]) or 0) - 1)
  set_later(key, 'n:' .. lane .. ':' .. kind, s[9])
  local queued = { interactive = tonumber(s[2]) or 0, routine = tonumber(s[3]) or 0 }
  local weight = limits_of(tenant)
  local correction = ((used or 0) - estimate) / weight
  -- A tenant without a backlog is in no ring.
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
  if not defer_writes or has_backlog then write_now() end
  if queued.interactive > 0 then ring_enter('interactive', tenant) end
  if queued.routine > 0 then ring_enter('routine', tenant) end
  if s[1] == 0 and not has_backlog and (tonumber(s[4]) or 0) <= 0 then
    redis.call('PEXPIRE', key, C.idle_tenant_ttl)
  end
  return true, has_backlog
end
