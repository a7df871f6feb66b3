--- @include slots
-- Taking an execution: what take.lua, take-lost.lua, take-assigned.lua and next.lua share.

-- Reads the record fields that decide about a take, and those that `own` needs.
local function read_for_take(id)
  return redis.call('HMGET', K.record .. id, 'at', 'eq', 'tp', 'bg', 'req', 'can', 't', 'sk', 'dw', 's', 'rel',
    'f', 'd', 'life', 'k', 'nd', 'l', 'a', 'sc', 'est', 'ho')
end

-- Names the run of the server by its run ID, or '' if the server hides it. A restarted server may have lost
-- the writes of its last second (AOF everysec). A promoted replica may lack writes that it had not received.
-- In both cases the run ID changes. The script asks the server (4 us), because a client that repeats a call
-- sends the run ID that it knew before.
local known_run_id
local function run_id()
  if not known_run_id then
    local info = redis.pcall('INFO', 'server')
    local id = type(info) == 'string' and string.match(info, 'run_id:(%x+)') or ''
    known_run_id = string.sub(id, 1, C.run_id_digits)
  end
  return known_run_id
end

-- False when the job is stale: its execution has ended, was put back, or was released again.
local function is_current(x, release)
  return (x[10] == 'released' or x[10] == 'running') and x[11] == release
end

-- True when the session of a run stays with its live owner, although the owner cannot offer the memory or
-- seconds that this execution asks for. The owner has the run's files, which later executions that ask for
-- less find there. A session that a request names is different: its amounts never change, and it moves to the
-- worker that takes the execution.
local function keeps_owner(sk, worker, need, now)
  if not string.find(sk, ':run:', 1, true) then return false end
  local owner = redis.call('HGET', K.session .. sk, 'w')
  if not owner or owner == worker then return false end
  local usual = string.gsub(need or '', 'memory=%d+,?', '')
  usual = string.gsub(usual, 'seconds=%d+,?', '')
  for _, lane in ipairs({ 'interactive', 'routine' }) do
    local slots, kind = slots_of_worker(owner, lane, now)
    if slots > 0 then return serves(kind, usual) end
  end
  return false
end

-- Makes a worker the owner of a released or running execution, and returns the reply of a take. `direct`: the
-- execution has no BullMQ job, and field `dw` is its lock, which the owner's heartbeats renew. If Redis
-- restarted since the execution was accepted, its record can be stale. Then the fence rises past every value
-- that could have been issued, and the reply tells the worker.
local function own(id, x, worker, kind, now, direct)
  local key = K.record .. id
  local is_older = x[14] and run_id() ~= '' and x[14] ~= run_id()
  local fence, deliveries = tonumber(x[12]) + (is_older and C.lost_fences or 1), tonumber(x[13]) + 1
  local attempt = math.max(1, tonumber(x[1]))
  redis.call('HSET', key, 's', 'running', 'w', worker, 'tk', now, 'at', attempt, 'f', fence, 'd', deliveries)
  if direct then redis.call('HSET', key, 'dw', now) elseif x[9] then redis.call('HDEL', key, 'dw') end
  if x[8] and not keeps_owner(x[8], worker, x[16], now) then
    redis.call('HSET', K.session .. x[8], 'w', worker)
  end
  if not direct and x[15] ~= kind and not are_kinds_alike() then
    slot_move(x[17], x[7], id, x[15], kind, tonumber(x[20]))
  end
  -- The mark of `begin` and, on a second line, the fence of the last hand-over to a sandbox.
  local began = x[4] and (x[4] .. '\n' .. (x[21] or '')) or ''
  return { 'taken', fence, attempt, x[2], now, x[3], began, x[5], x[6] and '1' or '', deliveries, x[7],
    is_older and '1' or '' }
end

-- Puts a released or taken execution that has not begun back into its backlog, as the next one of its agent.
-- Its former owner can write nothing more, because the execution is no longer running. Deliveries stay
-- counted. `x`: from read_for_take.
local function put_back(id, x, now)
  local key, tenant, lane = K.record .. id, x[7], x[17]
  redis.call('HDEL', key, 'w', 'tk', 'dw')
  redis.call('HSET', key, 's', 'queued')
  backlog_push(lane, tenant, x[18], id, tonumber(x[19]), now, true)
  slot_free(lane, tenant, id, x[15], tonumber(x[20]))
end
