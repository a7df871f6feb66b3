--- @include forecast
-- Describes one execution: {id, tenant, agent, status, attempt, enqueued ms, started ms or '', position or
-- -1, eta ms or -1, last progress event or '', the execution that it runs again or '', kind of program or '',
-- key of its session or ''}. Nil when it has no record.
local function describe(id, now)
  local x = redis.call('HMGET', K.record .. id, 't', 'a', 's', 'at', 'eq', 'st', 'l', 'sk', 'hd', 'rel', 'pg',
    'ro', 'pk')
  if not x[1] then return nil end
  local status, position, eta = status_of(x[3], x[6]), -1, -1
  if x[3] == 'released' then
    position, eta = forecast_released(x[7], id, x[10])
  elseif status == 'queued' then
    position, eta = forecast(x[7], x[1], x[2], id, now, x[8], x[9])
  elseif status == 'delayed' then
    eta = math.max(0, (tonumber(redis.call('ZSCORE', K.delayed .. x[7], id)) or now) - now)
  end
  local session = x[8] and string.sub(x[8], #x[1] + 2) or ''
  return { id, x[1], x[2], status, x[4], x[5], status ~= 'queued' and x[6] or '', position, eta, x[11] or '',
    x[12] or '', x[13] or '', session }
end
