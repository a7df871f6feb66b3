-- Purpose: repair what crashes left: lost jobs, dead workers, executions that waited too long.
-- KEYS[1]  any key of the tag (routing)
-- ARGV     1 milliseconds during which no other worker sweeps, 2 lock milliseconds
-- Returns  {'swept', {id, {fields of its record}} of each running one that was lost, overdue ids} |
--          {'skipped'}
-- Invariants: an outstanding execution without a BullMQ job gets a new job after C.lost_release, so a process
--          that ended without settling costs only time. If a worker had taken it, the new job goes to the
--          jobs of dead workers, which take-lost.lua takes.
-- Complexity: O(C.sweep_max) per lane and call; a cursor covers the rest in later calls.
--- @include clock
--- @include pick
if not redis.call('SET', K.sweep_lock, '1', 'NX', 'PX', ARGV[1]) then return { 'skipped' } end
local now = now_ms()
local lost, overdue = {}, {}
for _, lane in ipairs({ 'interactive', 'routine' }) do
  local out = K.out .. lane
  local from = tonumber(redis.call('HGET', K.clock, 'sweep:' .. lane)) or 0
  local page = redis.call('ZRANGE', out, from, from + C.sweep_max - 1, 'WITHSCORES')
  redis.call('HSET', K.clock, 'sweep:' .. lane, #page < 2 * C.sweep_max and 0 or from + C.sweep_max)
  for i = 1, #page, 2 do
    local id = page[i]
    if tonumber(page[i + 1]) < now - C.lost_release then
      local x = redis.call('HMGET', K.record .. id, 's', 'rel', 'dw', 'k')
      -- Field `dw` is the lock of an execution without a BullMQ job, which its owner's heartbeats renew.
      local is_locked = x[1] == 'running' and x[3] and now - tonumber(x[3]) < tonumber(ARGV[2])
      if not is_locked and (x[1] == 'released' or x[1] == 'running') then
        if not job_exists(lane, job_of(id, x[2])) then
          -- Read now, because the next owner may change these fields before the caller gets the answer.
          if x[1] == 'running' then
            local fields = redis.call('HMGET', K.record .. id, 'req', 'at', 'eq', 'tk', 'w', 'bg', 'f')
            lost[#lost + 1] = { id, fields }
          end
          redis.call('ZADD', out, now, id)
          if x[1] == 'running' then
            job_add_lost(lane, id, x[2], now)
          else
            job_add(lane, id, x[2], x[4], 1, now)
          end
        end
      elseif not is_locked then
        redis.call('ZREM', out, id)
      end
    end
  end
  local due = redis.call('ZRANGEBYSCORE', K.waiting .. lane, '-inf', now - C.overdue, 'LIMIT', 0, 20)
  for _, id in ipairs(due) do
    overdue[#overdue + 1] = id
  end
end
-- If a worker sends no heartbeat for one lock period, the executions assigned to it return to the fair queue.
-- After three lock periods it counts as dead, because BullMQ has redelivered its jobs by then.
for _, silent in ipairs(redis.call('ZRANGEBYSCORE', K.beats, '-inf', now - tonumber(ARGV[2]))) do
  local is_empty = unassign_all(silent)
  if is_empty and tonumber(redis.call('ZSCORE', K.beats, silent)) <= now - 3 * tonumber(ARGV[2]) then
    redis.call('ZREM', K.beats, silent)
    redis.call('HDEL', K.workers, silent)
  end
end
pick(now)
return { 'swept', lost, overdue }
