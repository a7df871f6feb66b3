/** E2B's double on loopback, for tests and for `cofferdam double e2b`. */
export { startE2bDouble, type E2bDouble } from './e2b-double.ts'
