-- Purpose: accept an execution (idempotency, depth limit, record, backlog or delayed set, waiter), then
--          release the next ones.
-- KEYS[1]  record of the new id
-- ARGV     1 id, 2 tenant, 3 agent, 4 lane, 5 priority 0..9, 6 delay ms, 7 request JSON, 8 traceparent or '',
--          9 '<tenant>:<sha256 of the idempotency key>' or '', 10 body hash, 11 reply channel or '', 12
--          session key or '', 13 callback URL or '', 14 run ID of the server as its caller knew it, or ''
--          (own.lua compares it at the take), 15 what it needs of a worker (include/kinds.lua), or '',
--          16 kind of program, for lists, 17 the execution that it runs again, or '', 18 facts for
--          filters of lists (live-filter.ts), or ''
-- Returns  {'accepted' | 'duplicate', id, status, position, eta_ms or -1}
--          {'conflict', id of the other execution} | {'full', waiting, limit, ms until there is room or -1}
-- Invariants: one idempotency key names one execution. Repeating a call changes nothing. A refused call
--          writes nothing. A tenant never has more executions waiting than its depth limit, unless the
--          execution starts at once.
-- Complexity: O(log n) plus the picks.
--- @include clock
--- @include pick
--- @include forecast

-- Direct release. An execution without a session skips backlog and ring when nobody waits and its lane has a
-- free slot. This happens only when all workers are of one kind, because otherwise a kind has to be chosen
-- first.

-- State that a direct release read and updated; the next call gathered into this script reuses it.
local seen

-- Reads a lane. `free`: how many more executions may be outstanding at the kinds that can serve the need.
local function read_lane(lane, need)
  local free = 0
  for _, kind in ipairs(known_kinds()) do
    if serves(kind, need) then
      local window, total = window_of(kind, lane)
      local out = out_at(kind)
      free = free + math.max(0, math.min(total - out.interactive - out.routine, window - out[lane]))
    end
  end
  return { lane = lane, kind = known_kinds()[1], tenants = {}, free = free }
end

-- Has the same effect as if the execution entered the ring and was picked at once. `state`: that of the
-- tenant, from waiting_of. Returns the estimated slot time, which the fair queue charges to the tenant.
local function release_at_once(around, tenant, id, state, weight, now)
  local lane, kind, key = around.lane, around.kind, K.tenant .. tenant
  local clock = around.clock or clock_of(lane, kind)
  local v, estimate = math.max(clock, state.v), estimate_of(state.mean, lane)
  state.outstanding, state.v = state.outstanding + 1, v + estimate / weight
  set_later(key, 'n', state.outstanding)
  state.here = state.here + 1
  set_later(key, 'n:' .. lane .. ':' .. kind, state.here)
  set_later(key, 'vt:' .. lane .. ':' .. kind, state.v)
  -- The tenant has nothing waiting. If nothing else is outstanding, it was idle and its hash has an expiry,
  -- which ends here.
  if state.outstanding == 1 then redis.call('PERSIST', key) end
  if v > clock then set_later(K.clock, 'v:' .. lane .. ':' .. kind, v) end
  write_later('ZADD', K.out .. lane, now, id)
  count_out(lane, kind, 1)
  job_add(lane, id, 1, kind, math.min(state.outstanding, C.priority_max), now, true)
  around.clock, around.free, around.tenants[tenant] = v, around.free - 1, state
  return estimate
end
--- @each
local id, tenant, agent, lane = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
local delay, channel = tonumber(ARGV[6]), ARGV[11]
local sk = ARGV[12] ~= '' and tenant .. ':' .. ARGV[12] or ''
local now = now_ms()
local around = seen
seen = nil
if not around or around.lane ~= lane then
  write_now()
  around = nil
end

-- The Redis client repeats a call when the connection broke before the answer came.
if redis.call('EXISTS', KEYS[1]) == 1 then
  write_now()
  local x = redis.call('HMGET', KEYS[1], 's', 'st', 'hd')
  local status = status_of(x[1], x[2])
  local position, eta = -1, -1
  if status == 'queued' then position, eta = forecast(lane, tenant, agent, id, now, sk, x[3]) end
  pick(now)
  return { 'accepted', id, status, position, eta }
end

if ARGV[9] ~= '' then
  local found = redis.call('GET', K.idempotency .. ARGV[9])
  if found then
    local first, hash = string.match(found, '^(%S+) (%S+)$')
    if hash ~= ARGV[10] then return { 'conflict', first } end
    local x = redis.call('HMGET', K.record .. first, 's', 'l', 't', 'a', 'st', 'sk', 'hd')
    local status = status_of(x[1], x[5])
    if status == 'ended' then return { 'duplicate', first, status, -1, -1 } end
    if channel ~= '' then
      redis.call('SADD', K.waiters .. first, channel)
      redis.call('PEXPIRE', K.waiters .. first, C.waiter_ttl)
    end
    write_now()
    local position, eta = -1, -1
    if status == 'queued' then position, eta = forecast(x[2], x[3], x[4], first, now, x[6], x[7]) end
    return { 'duplicate', first, status, position, eta }
  end
end

local weight, concurrency, max_queued = limits_of(tenant)
local waiting, state = 0, around and around.tenants[tenant]
if not state then waiting, state = waiting_of(tenant, lane, known_kinds()[1]) end
local is_idle, has_slot = false, false
if delay == 0 and waiting == 0 and (sk == '' or redis.call('HEXISTS', K.session .. sk, 'f') == 0) then
  is_idle = around or nobody_waits(now)
  if is_idle or not anybody_waits_in(lane) then
    around = around or read_lane(lane, ARGV[15])
    has_slot = not state.is_parked and state.outstanding < concurrency and around.free > 0
      and not has_its_share(lane, around.kind, tenant, state.outstanding, state.here, state.mean)
  end
end
if not has_slot or sk ~= '' then write_now() end
if waiting >= max_queued and not has_slot then
  return { 'full', waiting, max_queued, waiting == 0 and 0 or forecast_first_start(tenant, now) }
end
local at_once = has_slot and sk == '' and is_idle and are_kinds_alike()

local sequence = count_later(K.sequence)
local score = score_of(tonumber(ARGV[5]), sequence)
local record = { 't', tenant, 'a', agent, 'l', lane, 'p', ARGV[5], 'eq', now, 'at', 0, 'f', 0, 'd', 0,
  'sc', score,  'req', ARGV[7], 'tp', ARGV[8] }
local function note(field, value)
  record[#record + 1] = field
  record[#record + 1] = value
end
note('s', at_once and 'released' or delay == 0 and 'queued' or 'delayed')
note('rel', at_once and 1 or 0)
if at_once then note('est', release_at_once(around, tenant, id, state, weight, now)) end
if channel ~= '' then note('wc', channel) end
if sk ~= '' then note('sk', sk) end
if at_once then note('k', around.kind) end
if ARGV[15] and ARGV[15] ~= '' then note('nd', ARGV[15]) end
if ARGV[16] and ARGV[16] ~= '' then note('pk', ARGV[16]) end
if ARGV[14] and ARGV[14] ~= '' then note('life', ARGV[14]) end
if ARGV[13] and ARGV[13] ~= '' then note('cb', ARGV[13]) end
if ARGV[17] and ARGV[17] ~= '' then note('ro', ARGV[17]) end
if ARGV[18] and ARGV[18] ~= '' then note('fa', ARGV[18]) end
redis.call('HSET', KEYS[1], unpack(record))
if ARGV[9] ~= '' then
  redis.call('SET', K.idempotency .. ARGV[9], id .. ' ' .. ARGV[10], 'PX', C.idempotency_ttl)
end
write_later('ZADD', K.live .. tenant, sequence, id)
write_later('ZADD', K.all_live, sequence, id)

if delay > 0 then
  redis.call('ZADD', K.delayed .. lane, now + delay, id)
  redis.call('HINCRBY', K.tenant .. tenant, 'd', 1)
  redis.call('PERSIST', K.tenant .. tenant)
  redis.call('PUBLISH', K.control, string.format('due %.0f', delay))
  pick(now)
  return { 'accepted', id, 'delayed', -1, delay }
end
if at_once then
  seen = around
  return { 'accepted', id, 'queued', 0, 0 }
end
enter_queue(lane, tenant, agent, id, score, sequence, sk, now)
pick(now)
local worker = sk ~= '' and redis.call('HGET', KEYS[1], 'hd')
local position, eta = forecast(lane, tenant, agent, id, now, sk, worker)
return { 'accepted', id, 'queued', position, eta }
--- @end
write_now()
