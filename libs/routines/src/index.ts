/** Executions that run by a schedule, and the calls that tell how executions ended. */
export { readCallbackStatus } from './callbacks/callback-status.ts'
export { callbacksConfigSchema, type CallbacksConfig } from './callbacks/config.ts'
export { serveCallbacks, type CallbackDeps, type CallbackTiming } from './callbacks/serve-callbacks.ts'
export { fireRoutine, tickOf, type FireDeps } from './fire.ts'
export { checkSchedule, nextRunMs } from './schedule.ts'
export { createSchedules, serveTicks, type Schedules, type TickDeps } from './ticks.ts'
