--- @include forecast
--- @include status
-- {id, tenant, agent, status, attempt, enqueued ms, taken ms or '', position or -1, eta ms or -1, state}; nil when
-- there is no record.
local function describe(id, now)
  local x = redis.call('HMGET', K.record .. id, 't', 'a', 's', 'at', 'eq', 'tk', 'l')
  if not x[1] then return nil end
  local status, position, eta = status_of(x[3]), -1, -1
  if status == 'queued' then
    position, eta = forecast(x[7], x[1], x[2], id, now)
  elseif status == 'delayed' then
    eta = math.max(0, (tonumber(redis.call('ZSCORE', K.delayed .. x[7], id)) or now) - now)
  end
  return { id, x[1], x[2], status, x[4], x[5], x[6] or '', position, eta }
end
