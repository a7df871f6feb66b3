--- @include life
--- @include slots
-- What `own` needs of a record, and what a take is judged by: one read for both.
local function read_for_take(id)
  return redis.call('HMGET', K.record .. id, 'at', 'eq', 'tp', 'bg', 'req', 'can', 't', 'sk', 'dw', 's', 'rel', 'f', 'd',
    'life', 'k', 'nd', 'l', 'a', 'sc', 'est', 'ho')
end

-- False for the job of an execution that ended, was put back or released again since.
local function is_current(x, release)
  return (x[10] == 'released' or x[10] == 'running') and x[11] == release
end

-- True when the session of a run stays with its living owner, who could not serve this execution for the amounts
-- that it asks for: the files of the run are there, and executions that ask for no more find them again. What
-- asks for a session itself is refused for other amounts than the first one's, and moves with its worker.
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

-- A worker of a kind becomes the owner of a released or running execution: fields of the reply shared by take
-- and take-handed. `direct`: no BullMQ job carries it; `dw` is then its lock, renewed by the heartbeats of
-- the owner. In another life of the server than the execution was accepted in, the record may be older than
-- what was done: the fence jumps over all that were given out and lost, and the worker is told.
local function own(id, x, worker, kind, now, direct)
  local key = K.record .. id
  local is_older = x[14] and life() ~= '' and x[14] ~= life()
  local fence, deliveries = tonumber(x[12]) + (is_older and C.lost_fences or 1), tonumber(x[13]) + 1
  local attempt = math.max(1, tonumber(x[1]))
  redis.call('HSET', key, 's', 'running', 'w', worker, 'tk', now, 'at', attempt, 'f', fence, 'd', deliveries)
  if direct then redis.call('HSET', key, 'dw', now) elseif x[9] then redis.call('HDEL', key, 'dw') end
  if x[8] and not keeps_owner(x[8], worker, x[16], now) then redis.call('HSET', K.session .. x[8], 'w', worker) end
  if not direct and x[15] ~= kind and not are_kinds_alike() then slot_move(x[17], x[7], id, x[15], kind, tonumber(x[20])) end
  -- The mark and, on a line of its own, the fence of the last program that was handed over.
  local began = x[4] and (x[4] .. '\n' .. (x[21] or '')) or ''
  return { 'taken', fence, attempt, x[2], now, x[3], began, x[5], x[6] and '1' or '', deliveries, x[7],
    is_older and '1' or '' }
end
