-- Purpose: a worker takes the next execution of a lane that had begun when its worker died. The new owner
--          ends it and needs no slot for that.
-- KEYS[1]  any key of the tag (routing)
-- ARGV     1 lane, 2 token of its lock, 3 worker, 4 its kind, 5 lock milliseconds
-- Returns  {'taken', …as take.lua} with the job last | {'none'}
-- Invariants: those of take.lua. Of the jobs that BullMQ found stalled, takes only executions that have
--          begun. Others return to their backlog and wait for a slot. Stale jobs are deleted.
-- Complexity: O(log n), times at most C.promote_max for those that return to the backlog, plus the picks.
--- @include clock
--- @include own
--- @include bullmq
--- @include pick
local lane, token, worker, kind = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
local now, reply = now_ms(), nil
for _ = 1, C.promote_max do
  local job = job_pop_stalled(lane)
  if not job then break end
  local id, release = execution_of(job)
  local x = read_for_take(id)
  local is_ours = is_current(x, release)
  if is_ours and x[4] then
    job_lock(lane, job, worker, kind, token, ARGV[5], now, true)
    reply = own(id, x, worker, kind, now, false)
    reply[#reply + 1] = job
    break
  end
  job_delete(lane, job)
  if is_ours then put_back(id, x, now) end
end
write_now()
pick(now)
return reply or { 'none' }
