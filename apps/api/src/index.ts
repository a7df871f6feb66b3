/** The HTTP API, with the MCP endpoint and the dashboard's files. */
export { API_FIELDS, describeConfig, loadConfig, type ApiConfig } from './config.ts'
export { describeApi } from './describe-api.ts'
export { DEFAULT_API_LIMITS, type ApiDeps, type ApiLimits } from './route-context.ts'
export { runApi, type RunningApi, type Shared } from './run-api.ts'
export { API_VERSION, createApi } from './server.ts'
