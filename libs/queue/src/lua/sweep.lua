-- Purpose: repair what a crash left: lost jobs, dead workers, executions that waited too long.
-- KEYS[1]  any key of the tag (routing)
-- ARGV     1 milliseconds during which no other worker sweeps, 2 lock milliseconds
-- Returns  {'swept', {id, {fields of its lost owner}} of each that ran, overdue ids} | {'skipped'}
-- Invariants: an execution in `out` that BullMQ does not know is added again after C.lost_release, so a process that
--          ended without settling only costs time. One that was taken goes to those whose worker died
--          (take-lost.lua).
-- Complexity: O(C.sweep_max) per lane and call; a cursor walks over the rest.
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
      -- Taken from a hand: no BullMQ job carries it, its lock is renewed by its owner's heartbeats.
      local held = x[1] == 'running' and x[3] and now - tonumber(x[3]) < tonumber(ARGV[2])
      if not held and (x[1] == 'released' or x[1] == 'running') then
        if not job_exists(lane, job_of(id, x[2])) then
          -- Read now: the next owner may be there before the answer is.
          if x[1] == 'running' then
            lost[#lost + 1] = { id, redis.call('HMGET', K.record .. id, 'req', 'at', 'eq', 'tk', 'w', 'bg', 'f') }
          end
          redis.call('ZADD', out, now, id)
          if x[1] == 'running' then job_add_lost(lane, id, x[2], now) else job_add(lane, id, x[2], x[4], 1, now) end
        end
      elseif not held then
        redis.call('ZREM', out, id)
      end
    end
  end
  for _, id in ipairs(redis.call('ZRANGEBYSCORE', K.waiting .. lane, '-inf', now - C.overdue, 'LIMIT', 0, 20)) do
    overdue[#overdue + 1] = id
  end
end
-- The hand of a worker that was silent for a lock period goes back to the fair queue. After three it is dead: BullMQ
-- has redelivered its jobs by then.
for _, silent in ipairs(redis.call('ZRANGEBYSCORE', K.beats, '-inf', now - tonumber(ARGV[2]))) do
  local is_empty = hand_return(silent)
  if is_empty and tonumber(redis.call('ZSCORE', K.beats, silent)) <= now - 3 * tonumber(ARGV[2]) then
    redis.call('ZREM', K.beats, silent)
    redis.call('HDEL', K.workers, silent)
  end
end
pick(now)
return { 'swept', lost, overdue }
