--- @include ring
-- Backlog of an agent: zset of ids, lowest score first. Higher priority first, then first come first served.
-- 2^45 sequence numbers per priority keep every score exact in a double (10 * 2^45 < 2^53).

local function score_of(priority, sequence)
  return (9 - priority) * 35184372088832 + sequence
end

-- Counts a waiting execution, wherever it waits (backlog, behind its session, in a worker's hand): depth limit,
-- lane figures and the overdue check read these counts.
local function wait_begins(lane, tenant, id, now)
  redis.call('HINCRBY', K.tenant .. tenant, 'q:' .. lane, 1)
  redis.call('PERSIST', K.tenant .. tenant)
  redis.call('ZADD', K.waiting .. lane, now, id)
end

local function wait_ends(lane, tenant, id)
  redis.call('HINCRBY', K.tenant .. tenant, 'q:' .. lane, -1)
  redis.call('ZREM', K.waiting .. lane, id)
end

-- Puts a waiting id into its backlog. A new agent queues up behind the others of its tenant; with `first` it is
-- next (its turn was used up by an execution that did not run).
local function backlog_place(lane, tenant, agent, id, score, first)
  redis.call('ZADD', K.backlog .. lane .. ':' .. tenant .. ':' .. agent, score, id)
  local turns = K.turns .. lane .. ':' .. tenant
  if first then
    local head = redis.call('ZRANGE', turns, 0, 0, 'WITHSCORES')
    redis.call('ZADD', turns, (tonumber(head[2]) or 0) - 1, agent)
  elseif not redis.call('ZSCORE', turns, agent) then
    redis.call('ZADD', turns, redis.call('HINCRBY', K.tenant .. tenant, 'turn', 1), agent)
  end
  ring_enter(lane, tenant)
end

local function backlog_push(lane, tenant, agent, id, score, now, first)
  wait_begins(lane, tenant, id, now)
  backlog_place(lane, tenant, agent, id, score, first)
end

-- Takes an id out of its backlog; false when it was not there.
local function backlog_remove(lane, tenant, agent, id)
  local backlog = K.backlog .. lane .. ':' .. tenant .. ':' .. agent
  if redis.call('ZREM', backlog, id) == 0 then return false end
  if redis.call('EXISTS', backlog) == 0 then
    redis.call('ZREM', K.turns .. lane .. ':' .. tenant, agent)
    if redis.call('EXISTS', K.turns .. lane .. ':' .. tenant) == 0 then ring_leave(lane, tenant) end
  end
  return true
end
