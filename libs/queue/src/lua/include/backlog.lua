--- @include ring
-- Backlog of an agent in a class: a zset of ids, lowest score first. Higher priority comes first, then first
-- come, first served. 2^45 numbers per priority keep every score exact in a double (10 * 2^45 < 2^53).

local function score_of(priority, sequence)
  return (9 - priority) * 35184372088832 + sequence
end

local function backlog_of(class, tenant, agent) return K.backlog .. class .. ':' .. tenant .. ':' .. agent end

-- Counts a waiting execution, wherever it waits (backlog, behind its session, assigned to a worker). Depth
-- limit, lane figures and overdue check use these counts.
local function wait_begins(lane, tenant, id, now)
  redis.call('HINCRBY', K.tenant .. tenant, 'q:' .. lane, 1)
  redis.call('PERSIST', K.tenant .. tenant)
  redis.call('ZADD', K.waiting .. lane, now, id)
end

local function wait_ends(lane, tenant, id)
  redis.call('HINCRBY', K.tenant .. tenant, 'q:' .. lane, -1)
  redis.call('ZREM', K.waiting .. lane, id)
end

-- The class of a waiting execution, stored in `c` of its record unless it is the lane.
local function class_enter(lane, tenant, id)
  if are_kinds_alike() then return lane end
  local class = class_of(lane, redis.call('HGET', K.record .. id, 'nd'))
  if class ~= lane then
    redis.call('HSET', K.record .. id, 'c', class)
    redis.call('SADD', K.classes .. lane .. ':' .. tenant, class)
  end
  return class
end

-- The turn of an agent, which is the same in all classes of its tenant.
local function turn_of(lane, tenant, agent)
  for _, class in ipairs(classes_of(lane, tenant)) do
    local turn = redis.call('ZSCORE', K.turns .. class .. ':' .. tenant, agent)
    if turn then return turn end
  end
  return redis.call('HINCRBY', K.tenant .. tenant, 'turn', 1)
end

-- Inserts a waiting id into its backlog. A new agent comes after the tenant's other agents. With `first` it
-- comes before them: its execution was picked but did not run, so the agent gets its turn back.
local function backlog_insert(lane, tenant, agent, id, score, first)
  local class = class_enter(lane, tenant, id)
  local turns = K.turns .. class .. ':' .. tenant
  if first then
    local head = redis.call('ZRANGE', turns, 0, 0, 'WITHSCORES')
    redis.call('ZADD', turns, (tonumber(head[2]) or 0) - 1, agent)
  elseif not redis.call('ZSCORE', turns, agent) then
    redis.call('ZADD', turns, turn_of(lane, tenant, agent), agent)
  end
  redis.call('ZADD', backlog_of(class, tenant, agent), score, id)
  redis.call('ZADD', K.queued .. lane, 1, tenant)
  ring_enter(lane, tenant)
end

local function backlog_push(lane, tenant, agent, id, score, now, first)
  wait_begins(lane, tenant, id, now)
  backlog_insert(lane, tenant, agent, id, score, first)
end

-- Removes an agent's turn in a class if it has no backlog there, and the class if no turn is left.
local function class_trim(lane, class, tenant, agent)
  if redis.call('EXISTS', backlog_of(class, tenant, agent)) == 1 then return end
  local turns = K.turns .. class .. ':' .. tenant
  redis.call('ZREM', turns, agent)
  if redis.call('EXISTS', turns) == 1 then return end
  if class ~= lane then redis.call('SREM', K.classes .. lane .. ':' .. tenant, class) end
  ring_trim(lane, tenant)
end

-- Removes an id from its backlog. Returns false when it was not there.
local function backlog_remove(lane, tenant, agent, id)
  local class = redis.call('HGET', K.record .. id, 'c')
  if class then redis.call('HDEL', K.record .. id, 'c') end
  class = class or lane
  if redis.call('ZREM', backlog_of(class, tenant, agent), id) == 0 then return false end
  class_trim(lane, class, tenant, agent)
  return true
end

-- The next execution of a tenant that a kind can serve: the first one of the agent whose turn it is, or nil.
-- O(classes of the tenant * log n).
local function backlog_next(lane, tenant, kind)
  local best
  for _, class in ipairs(classes_of(lane, tenant)) do
    if serves(kind, need_of_class(class)) then
      local agent, turn = unpack(redis.call('ZRANGE', K.turns .. class .. ':' .. tenant, 0, 0, 'WITHSCORES'))
      local id, score = unpack(redis.call('ZRANGE', backlog_of(class, tenant, agent), 0, 0, 'WITHSCORES'))
      turn, score = tonumber(turn), tonumber(score)
      if not best or turn < best.turn or turn == best.turn and score < best.score then
        best = { class = class, agent = agent, turn = turn, id = id, score = score }
      end
    end
  end
  return best
end

-- Removes what backlog_next found and puts the agent last in every class. The caller calls ring_trim.
local function backlog_take(lane, tenant, head)
  local agent, backlog = head.agent, backlog_of(head.class, tenant, head.agent)
  redis.call('ZREM', backlog, head.id)
  if head.class ~= lane then redis.call('HDEL', K.record .. head.id, 'c') end
  local next_turn
  for _, class in ipairs(classes_of(lane, tenant)) do
    local turns = K.turns .. class .. ':' .. tenant
    if redis.call('EXISTS', backlog_of(class, tenant, agent)) == 1 then
      next_turn = next_turn or redis.call('HINCRBY', K.tenant .. tenant, 'turn', 1)
      redis.call('ZADD', turns, next_turn, agent)
    elseif class == head.class then
      redis.call('ZREM', turns, agent)
      if class ~= lane and redis.call('EXISTS', turns) == 0 then
        redis.call('SREM', K.classes .. lane .. ':' .. tenant, class)
      end
    end
  end
end
