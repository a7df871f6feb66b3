-- Purpose: end a worker's BullMQ job, if it has one, and fetch and take the next one of the lane in one step.
-- KEYS[1]  any key of the tag (routing)
-- ARGV     1 lane, 2 job that ends, or '', 3 lock token of that job and of the next one, 4 '1' to take the
--          next one, 5 worker, 6 lock milliseconds, 7 kind of the worker
-- Returns  {'taken', …as take.lua} with the job last | {'none'} | {'limited'} when no job ends and BullMQ
--          must fetch
-- Invariants: those of take.lua. Jobs that the worker's kind cannot serve stay for other workers. Stale jobs
--          are deleted. If the answer is lost, the execution is redelivered when its lock expires, as after a
--          crash.
-- Complexity: O(log n + active jobs of the lane + jobs in front for other kinds), times at most C.promote_max
--          for stale jobs.
--- @include clock
--- @include own
--- @include bullmq
local function none(lane)
  trim_events(lane)
  return { 'none' }
end
--- @each
local lane, token, worker, kind = ARGV[1], ARGV[3], ARGV[5], ARGV[7]
if ARGV[2] ~= '' then job_end(lane, ARGV[2], token) end
if ARGV[4] ~= '1' then return none(lane) end
for _ = 1, C.promote_max do
  local job = job_next(lane, kind)
  if job == false and ARGV[2] == '' then return { 'limited' } end
  if not job then return none(lane) end
  local id, release = execution_of(job)
  local x = read_for_take(id)
  if is_current(x, release) then
    local now = now_ms()
    job_lock(lane, job, worker, kind, token, ARGV[6], now, false)
    local reply = own(id, x, worker, kind, now, false)
    reply[#reply + 1] = job
    return reply
  end
  job_delete(lane, job)
end
-- All C.promote_max jobs were stale. More may follow, so mark the lane for another look.
job_mark(lane, kind)
return none(lane)
--- @end
write_now()
