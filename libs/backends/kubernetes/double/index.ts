/** The double of Kubernetes on loopback, for tests and for `cofferdam double kubernetes`. */
export { startKubernetesDouble, type KubernetesDouble } from './kubernetes-double.ts'
export { checkSpec } from './schemas.ts'
