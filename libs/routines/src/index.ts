/** Executions that run on a schedule, and the callbacks that report how executions ended. */
export { readCallbackStatus } from './callbacks/callback-status.ts'
export {
  callbacksConfigSchema,
  serveCallbacks,
  type CallbackDeps,
  type CallbacksConfig,
  type CallbackTiming,
} from './callbacks/serve-callbacks.ts'
export { fireRoutine, tickOf, type FireDeps } from './fire.ts'
export { checkSchedule, nextRunMs } from './schedule.ts'
export { createSchedules, serveTicks, type Schedules, type TickDeps } from './ticks.ts'
