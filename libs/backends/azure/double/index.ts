/** Azure's double on loopback, for tests and for `cofferdam double azure`. */
export { startAzureDouble, type AzureDouble } from './azure-double.ts'
export { PRINCIPAL } from './identity.ts'
