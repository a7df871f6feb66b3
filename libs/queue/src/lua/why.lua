-- Purpose: what an execution that has not begun waits for.
-- KEYS[1]  record
-- ARGV     1 id
-- Returns  {'found', JSON array of facts, the strongest first (../why-waiting.ts)} | {'not_found'}
--          There are no facts once the execution has begun or ended.
-- Complexity: O(C.rivals_max * log n).
--- @include clock
--- @include forecast
local id, now, facts = ARGV[1], now_ms(), {}
local x = redis.call('HMGET', KEYS[1], 't', 'a', 's', 'l', 'st', 'sk', 'hd', 'po', 'nd', 'c', 'w', 'rel')
local tenant, agent, state, lane = x[1], x[2], x[3], x[4]
if not tenant then return { 'not_found' } end

local function add(code, figures)
  figures.code = code
  facts[#facts + 1] = figures
end

-- Adds a fact with the outstanding executions and the slots of all kinds that can serve the execution.
local slots, kinds = 0, {}
local function add_with_fleet(code, figures)
  figures.fleet_running = 0
  for _, kind in ipairs(kinds) do
    figures.fleet_running = figures.fleet_running + out_at(kind)[lane]
  end
  figures.fleet_slots = math.floor(slots)
  add(code, figures)
end

-- Time from which the other workers refuse the execution, unless a worker that can run it reports by then.
-- Nil when all workers are gone, because the execution then keeps waiting.
local function patience_end(need)
  local can = need and need ~= '' and fleet_window() > 0 and servers_of(need).kinds
  local last
  for kind in pairs(can or {}) do
    local seen = tonumber(redis.call('ZSCORE', K.kinds, kind))
    if seen and (not last or seen > last) then last = seen end
  end
  return last and last + C.kind_patience
end

local function add_backlog_facts()
  local s = redis.call('HMGET', K.tenant .. tenant, 'n', 'park', 'q:' .. lane)
  local outstanding, queued = tonumber(s[1]) or 0, tonumber(s[3]) or 0
  local weight, concurrency = limits_of(tenant)
  if s[2] then add('tenant_parked', { ['until'] = tonumber(s[2]) }) end
  if slots == 0 then
    add('no_worker', {
      fleet_workers = redis.call('ZCARD', K.beats), need = x[9] or '', ['until'] = patience_end(x[9]),
    })
  end
  if outstanding >= concurrency then
    add('tenant_concurrency', { running = outstanding, limit = concurrency })
  end
  local class = x[10] or lane
  local backlog = backlog_of(class, tenant, agent)
  local rank = redis.call('ZRANK', backlog, id) or 0
  local others = math.max(0, queued - redis.call('ZCARD', backlog))
  if rank > 0 or others > 0 then
    add('agent_turn', { ahead = rank, other_agents = others })
  end
  if slots > 0 then
    local position, eta = forecast(lane, tenant, agent, id, now, false, false)
    add_with_fleet('turn', { ahead = position, eta_ms = eta, weight = weight })
  end
end

if lane then slots, kinds = slots_for(lane, x[9]) end
if state == 'delayed' then
  local due = tonumber(redis.call('ZSCORE', K.delayed .. lane, id)) or now
  add('delayed', { ['until'] = due, returned = x[8] and true or false })
elseif state == 'queued' then
  local behind = x[6] and redis.call('ZRANK', K.session_queue .. x[6], id)
  if x[7] then
    local ahead = redis.call('ZRANK', K.assigned .. lane .. ':' .. x[7], id) or 0
    add('session_worker', { worker_id = x[7], ahead = ahead })
  elseif behind then
    local front = redis.call('HGET', K.session .. x[6], 'f')
    add('session_turn', { execution_id = front or '', ahead = behind + 1 })
  else
    add_backlog_facts()
  end
elseif state == 'released' then
  local position, eta = forecast_released(lane, id, x[12])
  add_with_fleet('worker_slot', { ahead = position, eta_ms = eta })
elseif state == 'running' and not x[5] then
  add('starting', { worker_id = x[11] or '' })
end
local since = redis.call('ZSCORE', K.waiting .. lane, id)
for _, fact in ipairs(facts) do fact.since = tonumber(since) end
-- An empty Lua table would become {}.
return { 'found', #facts > 0 and cjson.encode(facts) or '[]' }
