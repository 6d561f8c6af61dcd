// See nccl_names.h: the rare paths, and the numbers of API v1.
#include "plugin/nccl_names.h"

namespace rankscope::plugin {

NameBytes ReadNameAtPageEnd(const char* text) {
  NameBytes name;
  for (int i = 0; i < 16 && text[i] != '\0'; ++i) {
    const auto byte = static_cast<uint64_t>(static_cast<unsigned char>(text[i]));
    (i < 8 ? name.low : name.high) |= byte << (8 * (i & 7));
  }
  return name;
}

namespace {

template <typename T, size_t kCount>
uint8_t At(const T (&table)[kCount], uint8_t number) {
  return number < kCount ? static_cast<uint8_t>(table[number]) : uint8_t{0};
}

}  // namespace

// ncclFunc_t, ncclDataType_t, the algorithm and protocol numbers of NCCL 2.23 to 2.25 (reference, 1.8).
uint8_t FunctionFromNumber(uint8_t number) {
  using schema::Function;
  static constexpr Function kByNumber[] = {Function::kBroadcast,     Function::kReduce,    Function::kAllGather,
                                           Function::kReduceScatter, Function::kAllReduce, Function::kSendRecv,
                                           Function::kSend,          Function::kRecv};
  return At(kByNumber, number);
}
uint8_t DataTypeFromNumber(uint8_t number) {
  using schema::DataType;
  static constexpr DataType kByNumber[] = {DataType::kInt8,     DataType::kUint8,      DataType::kInt32,
                                           DataType::kUint32,   DataType::kInt64,      DataType::kUint64,
                                           DataType::kFloat16,  DataType::kFloat32,    DataType::kFloat64,
                                           DataType::kBfloat16, DataType::kFloat8e4m3, DataType::kFloat8e5m2};
  return At(kByNumber, number);
}
uint8_t AlgorithmFromNumber(uint8_t number) {
  using schema::Algorithm;
  static constexpr Algorithm kByNumber[] = {Algorithm::kTree,         Algorithm::kRing, Algorithm::kCollnetDirect,
                                            Algorithm::kCollnetChain, Algorithm::kNvls, Algorithm::kNvlsTree,
                                            Algorithm::kPat};
  return At(kByNumber, number);
}
uint8_t ProtocolFromNumber(uint8_t number) {
  using schema::Protocol;
  static constexpr Protocol kByNumber[] = {Protocol::kLl, Protocol::kLl128, Protocol::kSimple};
  return At(kByNumber, number);
}

}  // namespace rankscope::plugin
