/** AgentCore's double on loopback, for tests and for `cofferdam double agentcore`. */
export { EXAMPLE_SECRETS, startAgentcoreDouble, type AgentcoreDouble } from './agentcore-double.ts'
export { startAccountDouble, type AccountDouble } from './control/control-plane.ts'
