-- Purpose: how much of a lane waits for one kind of worker, so that the workers of that kind can be scaled.
-- KEYS[1]  any key of the tag (routing)
-- ARGV     1 lane, 2 kind, 3… tenants
-- Returns  {executions of these tenants that would start if the kind had free slots (a number with a
--          fraction, as text), since when the oldest of the executions that are next has been due, or ''}
-- An execution that several kinds with slots can run counts in equal parts for each of them, so that the sum
-- over all kinds counts it once. Executions that more workers would not start are not counted: those behind
-- another one of their session, assigned to the worker of their session, or beyond the concurrency of their
-- tenant. If a tenant has many agents, its first C.demand_agents stand for all.
-- Complexity: O(tenants * classes of each * C.demand_agents). One tenant of one agent takes about 35 us.
--- @include backlog

local lane, kind = ARGV[1], ARGV[2]

-- Per class, the number of kinds that can serve it and have slots. The kind that is asked about counts even
-- without slots.
local sharers = {}
local function sharers_of(class)
  if not sharers[class] then
    local count = 0
    for _, other in ipairs(known_kinds()) do
      local has_slots = other == kind or window_of(other, lane) > 0
      if has_slots and serves(other, need_of_class(class)) then count = count + 1 end
    end
    sharers[class] = math.max(1, count)
  end
  return sharers[class]
end

-- Returns how many executions of a tenant wait in a class, and since when its next one has been due. The next
-- one is the first of the agent whose turn it is.
local function look_at(class, tenant)
  local turns = K.turns .. class .. ':' .. tenant
  local agents, count = redis.call('ZRANGE', turns, 0, C.demand_agents - 1), 0
  for _, agent in ipairs(agents) do
    count = count + redis.call('ZCARD', backlog_of(class, tenant, agent))
  end
  if #agents == 0 then return 0 end
  local first = redis.call('ZRANGE', backlog_of(class, tenant, agents[1]), 0, 0)[1]
  local since = first and redis.call('ZSCORE', K.waiting .. lane, first)
  return count / #agents * redis.call('ZCARD', turns), since and tonumber(since)
end

local startable, oldest = 0, nil
for i = 3, #ARGV do
  local tenant = ARGV[i]
  local _, concurrency = limits_of(tenant)
  local room = math.max(0, concurrency - (tonumber(redis.call('HGET', K.tenant .. tenant, 'n')) or 0))
  local all, ours = 0, 0
  for _, class in ipairs(classes_of(lane, tenant)) do
    local count, since = look_at(class, tenant)
    all = all + count
    if serves(kind, need_of_class(class)) then
      ours = ours + count / sharers_of(class)
      if since and (not oldest or since < oldest) then oldest = since end
    end
  end
  startable = startable + (all > room and ours * room / all or ours)
end
return { string.format('%.17g', startable), oldest and string.format('%.0f', oldest) or '' }
