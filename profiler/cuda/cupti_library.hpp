#pragma once

// CUPTI as it is found at run time: never linked, so that a program starts where it is missing. The files
// cupti_* are the only ones that include its header.

#include <cupti.h>

#include <string>

#include "models/base/result.hpp"

namespace pipeplan {

// The functions that are called, under the names of CUPTI without its prefix.
struct CuptiLibrary {
  std::string path;
  decltype(&cuptiGetVersion) get_version = nullptr;
  decltype(&cuptiGetResultString) get_result_string = nullptr;
  decltype(&cuptiSubscribe) subscribe = nullptr;
  decltype(&cuptiUnsubscribe) unsubscribe = nullptr;
  decltype(&cuptiGetCallbackName) get_callback_name = nullptr;
  decltype(&cuptiActivitySetAttribute) set_attribute = nullptr;
  decltype(&cuptiActivityRegisterTimestampCallback) register_timestamp_callback = nullptr;
  decltype(&cuptiActivityRegisterCallbacks) register_callbacks = nullptr;
  decltype(&cuptiActivityEnable) enable = nullptr;
  decltype(&cuptiActivityDisable) disable = nullptr;
  decltype(&cuptiActivityFlushAll) flush_all = nullptr;
  decltype(&cuptiActivityGetNextRecord) get_next_record = nullptr;
  decltype(&cuptiActivityGetNumDroppedRecords) get_dropped_records = nullptr;
  decltype(&cuptiActivityPushExternalCorrelationId) push_external_id = nullptr;
  decltype(&cuptiActivityPopExternalCorrelationId) pop_external_id = nullptr;
  // Null where CUPTI is older than 12.5.
  decltype(&cuptiActivityEnableDriverApi) enable_driver_api = nullptr;
  decltype(&cuptiActivityEnableRuntimeApi) enable_runtime_api = nullptr;

  // Nothing, or what a failed call means and what to do about it.
  [[nodiscard]] Result<void> check(CUptiResult status, const char* call) const;
};

// Loads the file that the environment variable PIPEPLAN_CUPTI names, else libcupti.so of the major version
// whose header this was compiled with, from where the loader looks and from the toolkit's folders.
// Unavailable, with the places looked at, where there is none, and where its version is another one: the
// layout of records goes with the version.
Result<CuptiLibrary> load_cupti();

}  // namespace pipeplan
